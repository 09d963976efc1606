"""Answers of `predict` for a lane with a consumer group, and for the output of a loop."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.lane.groups import CONSUMER, GROUP_ANOMALIES, Group, Loop
from kafka_chaos.contract.lane.groups import GroupAnomaly as A
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.reference_model import Anomaly, Lane, Prediction, predict
from kafka_chaos.reference_model.groups.rules import EAGER_RULES
from kafka_chaos.reference_model.predict import grouped as module
from kafka_chaos.reference_model.predict.cache import cache_key
from kafka_chaos.reference_model.predict.prediction import internal_topic
from kafka_chaos.reference_model.predict.result import PredictionNotExhausted
from kafka_chaos.reference_model.search import Budget
from tests.reference_model.answers import of_family, shown

pytestmark = pytest.mark.xdist_group("transactions")
"""In one process, which searches once for what the known defects show."""

LANE = Lane(lane="one", replication_factor=2)
ALONE = replace(LANE, group=Group(members=1))
GROUP = replace(LANE, group=Group(members=2))
LOOP = replace(LANE, loop=Loop(source="in", offsets="after"))


def test_a_group_is_asked_about_four_anomalies_and_a_loop_about_all() -> None:
    assert tuple(of_family(predict(GROUP), A)) == GROUP_ANOMALIES == GROUP.group_anomalies
    prediction = predict(LOOP)
    assert tuple(of_family(prediction, A)) == tuple(A) == LOOP.group_anomalies
    assert all(answer.why for answer in of_family(prediction, A).values())
    assert set(LOOP.anomalies) == {*Anomaly, *A}
    assert Prediction.from_json(prediction.to_json()) == prediction


AT_THE_END = Group(members=1, reset="latest")
POWER_LOSS = {A.COMMIT_LOST, A.COMMIT_REGRESSED}
MAY_SHOW: dict[str, tuple[Lane, set[A]]] = {
    "group": (GROUP, set()),
    "crash": (replace(LANE, group=Group(members=1, crashes=1)), set()),
    "begins-at-the-end": (replace(LANE, group=AT_THE_END), {A.SKIPPED_AFTER_REBALANCE}),
    "log-is-cut-and-begins-at-the-end": (
        replace(LANE, group=AT_THE_END, unclean_leader_election=True, faults=("kill",)),
        {A.SKIPPED_AFTER_REBALANCE, A.COMMIT_LOST, A.COMMIT_REGRESSED},
    ),
    "loop-begins-at-the-end": (
        replace(LANE, loop=Loop(source="in", offsets="after", group=AT_THE_END)),
        {A.SKIPPED_AFTER_REBALANCE, A.NOT_PROCESSED, A.PROCESSED_TWICE},
    ),
    **{
        f"{members}-crash-commits-{commits}": (
            replace(LANE, group=Group(members=members, crashes=1, commits=commits)),
            {A.SKIPPED_AFTER_REBALANCE},
        )
        for members, commits in ((1, "before"), (1, "auto"), (2, "auto"))
    },
    "power-loss": (replace(ALONE, faults=("power-loss",)), POWER_LOSS),
    "2-power-loss": (replace(GROUP, faults=("power-loss",)), {*POWER_LOSS, A.OWNED_TWICE}),
    "loop": (LOOP, {A.PROCESSED_TWICE}),
    "loop-commits-before": (replace(LOOP, loop=Loop(source="in", offsets="before")), set()),
    "loop-that-loses-records": (replace(LOOP, acks="1", faults=("kill",)), {A.PROCESSED_TWICE, A.NOT_PROCESSED}),
}


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.slow] if name.startswith("2") else [])
        for name, case in MAY_SHOW.items()
    ],
)
def test_what_groups_and_loops_may_show(lane: Lane, expected: set[A]) -> None:
    assert shown(predict(lane), A) == expected


@pytest.mark.slow
@pytest.mark.parametrize("members", [1, 2])
def test_a_loop_in_transactions_shows_nothing_but_by_a_known_defect(members: int) -> None:
    loop = Loop(source="in", group=Group(members=members))
    transactional = Transactional(size=1, producers=members)
    prediction = predict(replace(LANE, idempotence=True, transactional=transactional, loop=loop))
    assert shown(prediction, A) == set()
    named = {
        a: ["+".join(trace.ids) for trace in answer.known_defects] for a, answer in of_family(prediction, A).items()
    }
    torn = {A.PROCESSED_TWICE, A.NOT_PROCESSED}
    # A transaction of one record, with one partition and the offsets, can't be torn by records: but by its offsets.
    assert {a for a, defects in named.items() if defects} <= torn
    assert prediction.bounds["groups"][0]["rules"] == "cooperative"


def test_members_whose_position_moves_over_ends_miss_records_and_start_over_by_a_known_defect() -> None:
    def named(lane: Lane) -> set[Any]:
        answers = of_family(predict(lane), A).items()
        return {a for a, answer in answers if any("librdkafka-4844" in one.ids for one in answer.known_defects)}

    affected = replace(GROUP, client="librdkafka 2.12.0")
    assert named(affected) == {A.SKIPPED_AFTER_REBALANCE, A.COMMIT_LOST, A.COMMIT_REGRESSED}
    assert named(replace(GROUP, client="librdkafka 2.13.2")) == set()


def test_the_offsets_are_kept_as_safely_as_the_cluster_keeps_its_own_topics() -> None:
    offsets = internal_topic(
        replace(GROUP, acks="0", unclean_leader_election=True, faults=("kill",)), "__consumer_offsets"
    )
    assert (offsets.acks, offsets.unclean_leader_election, offsets.faults) == ("all", False, ("kill",))
    assert offsets.group is None


def test_more_than_two_members_and_their_time_outs_are_no_other_question() -> None:
    assert cache_key(replace(GROUP, group=Group(members=3, session_timeout_ms=7_000)), None) == cache_key(GROUP, None)


def test_the_protocol_of_brokers_is_searched_by_its_own_rules() -> None:
    own = Group(members=2, protocol=CONSUMER, assignor=None)
    prediction = predict(replace(GROUP, kafka_version="4.3.1", metadata_mode="kraft", group=own))
    assert prediction.bounds["groups"][0]["rules"] == "consumer"
    assert shown(prediction, A) == set()


def test_what_a_small_budget_has_not_searched_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "rules_of_group", lambda *_: replace(EAGER_RULES, name="asked by no other test"))
    states = predict(replace(LANE)).states
    with pytest.raises(PredictionNotExhausted) as raised:
        predict(
            replace(LOOP, loop=Loop(source="in", offsets="after", group=Group(crashes=1, leaves=1))),
            budget=Budget(states + 30),
        )
    entries = raised.value.unfinished.to_json()["groups"]
    assert entries.keys() == {str(anomaly) for anomaly in A}
    assert {entry["status"] for entry in entries.values()} == {"not exhausted"}
