"""The ISRs that a run showed narrow its statuses: missing, ambiguous or contradictory observations leave
the statuses for these faults."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.events import PartitionChanged
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional, TransactionAnomaly
from kafka_chaos.reference_model import predict
from kafka_chaos.reference_model.compare import FAULT_SETS, LANES
from kafka_chaos.reference_model.lane.state import Scope
from kafka_chaos.reference_model.predict.cache import predict_cached
from kafka_chaos.reference_model.predict.defects import plain_lane
from kafka_chaos.reference_model.search import Budget, ScopeNotExhausted
from kafka_chaos.verification.inputs.documents.events import Events, Phase
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.documents.predictions import prediction_of
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.this_run import ThisRun, in_this_run, numbered
from tests.reference_model.standard_lanes import standard
from tests.verification.samples.changes import MS, States, elected, isr_seen, states
from tests.verification.samples.changes import POWER_LOSS as FAULT
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows

LANE = Lane(lane="a", acks="all", faults=("power-loss",))
WHOLE, WITHOUT = (1, 2, 3), (2, 3)
USUAL: States = [(1, WHOLE), (30, WITHOUT), (50, WHOLE)]
"""In milliseconds and by number: broker 1 leaves the ISR while it has no power, and comes back."""


def judged(
    kept: Sequence[PartitionChanged],
    *,
    lane: Lane = LANE,
    faults: tuple[FaultRecord, ...] | None = (FAULT,),
    phases: dict[str, Phase] | None = None,
    counts: dict[Any, int] | None = None,
    **events: Any,
) -> ThisRun:
    usual = {"load": Phase(None, 2 * MS, 60 * MS)}
    told = Events(faults=faults, phases=usual if phases is None else phases, kept={("a", 0): kept}, **events)
    run = RunDirectory(path=None, lanes=(lane,), tables={}, events=told)
    return in_this_run(run, lane, prediction_of(None, lane, None), counts or {Anomaly.LOST_WRITE: 3})


def reason(found: ThisRun) -> str | None:
    """Why nothing was ruled out; the statuses are those for these faults then."""
    assert found.ledger is not None
    assert found.ledger.searched is (found.ledger.reason is None)
    if found.ledger.reason is not None:
        assert found.ruled_out == {}
        assert found.prediction.statuses[Anomaly.LOST_WRITE] == Status.PERMITTED
    return found.ledger.reason


def test_where_only_a_fault_took_a_broker_out_of_the_isr_acks_all_loses_nothing() -> None:
    found = judged(states(USUAL))
    assert reason(found) is None
    assert found.ruled_out[Anomaly.LOST_WRITE] == Status.FORBIDDEN
    assert found.prediction.statuses[Anomaly.LOST_WRITE] == Status.FORBIDDEN
    assert Anomaly.DUPLICATE not in found.ruled_out
    (partition,) = found.ledger.partitions if found.ledger else ()
    assert (partition.states, partition.complete, partition.reason) == (3, True, None)


def test_a_zombie_that_acknowledged_stays_a_confirmation() -> None:
    lane = replace(LANE, acks="1", faults=("pause",))
    pause = replace(FAULT, fault_id="pause-1", kind="pause", model_faults=("pause",))
    found = judged(states(USUAL), lane=lane, faults=(pause,))
    assert reason(found) is None
    assert Anomaly.LOST_WRITE not in found.ruled_out


def test_what_the_documentation_does_not_promise_is_not_ruled_out_by_what_was_seen() -> None:
    lane = Lane(lane="a", acks="1", faults=())
    found = judged(states([(1, WHOLE)]), lane=lane, faults=(), counts={Anomaly.REORDERED: 2})
    assert reason(found) is None
    assert found.prediction.statuses[Anomaly.REORDERED] == Status.PERMITTED


UNTOLD = "no log names what became of the partition's state"


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([], "no log names the partition's states"),
        (states(USUAL)[:1] + states(USUAL)[2:], f"{UNTOLD} 0"),
        (states(USUAL)[1:], "the ISR was not seen whole when the load began"),
        (states(USUAL)[:2], "the partition's state 1 is not known to be its last one"),
        (states(USUAL[:2]), "the ISR was not seen whole when the load had ended"),
        (states(USUAL, newest=3), "the partition's state 2 is not known to be its last one"),
        (states(USUAL) + states([(50, WITHOUT)], first=2), "the logs name two ISRs of the partition's state 2"),
        (states([(1, None), (30, WITHOUT), (50, WHOLE)]), f"{UNTOLD} -1"),
        (states([(1, WHOLE), (52, WITHOUT), (50, WHOLE)]), "the partition's state 1 was logged after the next one"),
        (states([(1, WHOLE), (30, (1, 3)), (50, WHOLE)]), "broker 2 left the ISR, and no fault held it"),
        (states([(1, WHOLE), (45, WITHOUT), (50, WHOLE)]), "broker 1 left the ISR, and no fault held it"),
        (states([(1, WHOLE), (30, (2,)), (50, WHOLE)]), "broker 3 left the ISR, and no fault held it"),
        (
            states([(1, WHOLE), (30, WITHOUT), (33, WHOLE), (36, WITHOUT), (50, WHOLE)]),
            "broker 1 left the ISR, and no fault held it",
        ),
        (states([(1, WHOLE)]), "fault power-loss-1 ended broker 1, which was not seen to leave the ISR"),
    ],
)
def test_an_observation_that_is_missing_ambiguous_or_of_a_slow_broker_rules_nothing_out(
    kept: list[PartitionChanged], expected: str
) -> None:
    assert reason(judged(kept)) == expected


def test_an_isr_that_changed_in_the_millisecond_of_a_request_did_so_after_it() -> None:
    assert reason(judged(states([(1, WHOLE), (19, WITHOUT), (50, WHOLE)]))) is None
    early = states([(1, WHOLE), (18, WITHOUT), (50, WHOLE)])
    assert reason(judged(early)) == "broker 1 left the ISR, and no fault held it"


def test_states_are_put_in_order_and_those_that_several_logs_name_begin_with_the_first() -> None:
    first, out, back = states(USUAL)
    again = [replace(back, ts_ns=ms * MS, isr=isr) for ms, isr in ((49, None), (70, WHOLE), (60, None))]
    found = numbered([*again, back, out, first, replace(first, ts_ns=5 * MS)])
    assert [(state.since_ns // MS, set(state.isr)) for state in found] == [
        (1, {1, 2, 3}),
        (30, {2, 3}),
        (49, {1, 2, 3}),
    ]
    # What a line without an ISR tells is the one of the state before.
    told = numbered([first, out, replace(back, isr=None)])
    assert [set(state.isr) for state in told] == [{1, 2, 3}, {2, 3}, {2, 3}]


def test_logs_may_name_a_state_a_millisecond_before_the_one_that_came_first() -> None:
    first, out, back = states([(1, WHOLE), (51, WITHOUT), (50, WHOLE)])
    assert [state.since_ns for state in numbered([first, out, back])] == [MS, 51 * MS, 50 * MS]
    with pytest.raises(ValueError, match="state 1 was logged after the next one"):
        numbered([first, replace(out, ts_ns=51 * MS + 1), back])


def test_what_may_have_happened_unseen_rules_nothing_out() -> None:
    kept = states(USUAL)
    assert reason(judged(kept, outside={"a": ("kill",)})) == "others may have injected faults at any time"
    assert reason(judged(kept, phases={})) == "events.jsonl does not say when the load began and ended"
    assert (
        reason(judged(kept, phases={"load": Phase(None, 2)}))
        == "events.jsonl does not say when the load began and ended"
    )
    old = reason(judged(kept, lane=replace(LANE, kafka_version="2.4.1")))
    assert old == "brokers before 2.8 don't number what they change"
    assert reason(judged(kept, lane=replace(LANE, kafka_version="2.8.0"))) is None
    unproven = replace(FAULT, proven=[])
    assert reason(judged(kept, faults=(unproven,))) == "fault power-loss-1: not proven: no event says so"
    for kind in ("reassignment", "a-kind-of-my-own", "clock-step"):
        assert kind in str(reason(judged(kept, faults=(FAULT, replace(FAULT, fault_id="other", kind=kind)))))
    for resolved in ((), ("somewhere",)):
        nameless = replace(FAULT, resolved=resolved)
        assert "does not say which brokers it ended" in str(reason(judged(kept, faults=(nameless,))))
    assert judged(kept, faults=None).ledger is None


def test_what_clients_and_leaders_saw_has_to_be_among_the_states() -> None:
    kept = states(USUAL)
    assert (
        reason(judged(kept, changes={("a", 0): [isr_seen(30 * MS, (3, 2)), elected(30 * MS, 2, 1, 5, (2, 3))]})) is None
    )
    for seen in (isr_seen(30 * MS, (1, 2)), elected(30 * MS, 2, 1, 5, (2,))):
        assert "no log names the state in which the ISR was" in str(reason(judged(kept, changes={("a", 0): [seen]})))


def test_a_broker_alone_in_the_isr_stays_in_it_and_a_fault_may_hold_two() -> None:
    both = replace(FAULT, resolved=("broker-1", "broker-2"))
    alone: States = [(1, WHOLE), (25, WITHOUT), (30, (3,)), (50, WHOLE)]
    twice = replace(LANE, faults=("power-loss", "power-loss"))
    assert reason(judged(states(alone), lane=twice, faults=(both,))) is None
    last = replace(
        FAULT, fault_id="power-loss-2", resolved=("broker-3",), requested=[32 * MS], proven=[33 * MS], healed=[45 * MS]
    )
    thrice = replace(LANE, faults=("power-loss",) * 3)
    assert reason(judged(states(alone), lane=thrice, faults=(both, last))) is None


AXIOMATIC = (Anomaly.UNSEEN, Anomaly.HIGH_WATERMARK_REGRESSION)


def test_an_axiom_holds_where_no_broker_lost_its_end_and_stayed_in_the_isr() -> None:
    counts = dict.fromkeys(AXIOMATIC, 1)
    assert judged(states(USUAL), counts=counts).ruled_out == dict.fromkeys(AXIOMATIC, Status.FORBIDDEN)
    assert judged(states(USUAL), counts={Anomaly.UNSEEN: 1}).ruled_out == {Anomaly.UNSEEN: Status.FORBIDDEN}
    assert judged(states(USUAL)[:1] + states(USUAL)[2:], counts=counts).ruled_out == {}


@pytest.mark.slow
def test_an_axiom_is_open_where_the_last_broker_in_the_isr_lost_its_power() -> None:
    counts = dict.fromkeys(AXIOMATIC, 1)
    alone: States = [(1, WHOLE), (15, WITHOUT), (18, (3,)), (50, WHOLE)]
    pause = replace(FAULT, fault_id="pause", kind="pause", model_faults=("pause",), requested=[10 * MS])
    others = replace(pause, resolved=("broker-1", "broker-2"))
    last = replace(FAULT, resolved=("broker-3",))
    found = judged(
        states(alone), lane=replace(LANE, faults=("pause", "pause", "power-loss")), faults=(others, last), counts=counts
    )
    assert found.ledger is not None
    assert (found.ledger.searched, found.ruled_out) == (True, {})


SLOW: States = [*USUAL, (52, (1, 2)), (54, WHOLE), (55, None)]


@pytest.mark.parametrize("given", [USUAL, SLOW], ids=["only a fault", "a slow broker, too"])
def test_fewer_observations_never_rule_out_more(given: States) -> None:
    """Any part of the logs' states may be missing, also at the end."""
    whole = states(given)
    known = judged(whole).ruled_out
    assert bool(known) is (given is USUAL)
    for size in range(len(whole)):
        for left in combinations(whole, size):
            assert judged(left).ruled_out == {}


def test_what_happens_after_the_load_changes_nothing() -> None:
    later: States = [*USUAL, (70, (1,)), (80, WHOLE)]
    assert reason(judged(states(later))) is None


def test_nothing_is_searched_for_where_nothing_permitted_was_found() -> None:
    found = judged(states(USUAL), counts={Anomaly.PHANTOM: 1})
    assert found.ledger is not None
    assert (found.ledger.searched, found.ledger.reason) == (False, "nothing was found that is permitted")


TRANSACTIONS = replace(LANE, idempotence=True, transactional=Transactional(size=1), unclean_leader_election=True)


@pytest.mark.parametrize(
    ("fault", "ruled_out"),
    [
        ("kill", {TransactionAnomaly.LOST_TRANSACTION: Status.FORBIDDEN}),
        pytest.param("power-loss", {}, marks=pytest.mark.slow),
    ],
)
def test_transactions_lose_what_their_partitions_lose_and_what_the_coordinator_s_topic_may(
    fault: str, ruled_out: dict[TransactionAnomaly, Status]
) -> None:
    """The ISR of __transaction_state is not observed: a power loss may still cost what it had acknowledged."""
    lane = replace(TRANSACTIONS, faults=(fault,))
    held = replace(FAULT, kind=fault, model_faults=(fault,))
    found = judged(states(USUAL), lane=lane, faults=(held,), counts={TransactionAnomaly.LOST_TRANSACTION: 1})
    assert found.ruled_out == ruled_out
    narrowed = found.prediction.statuses[TransactionAnomaly.LOST_TRANSACTION]
    assert narrowed == (Status.FORBIDDEN if ruled_out else Status.PERMITTED)
    assert (TransactionAnomaly.LOST_TRANSACTION in found.prediction.known_defects) == bool(ruled_out)


def test_a_search_that_takes_too_long_rules_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = replace(TRANSACTIONS, faults=("kill",))
    held = replace(FAULT, kind="kill", model_faults=("kill",))
    counts = {TransactionAnomaly.LOST_TRANSACTION: 1, Anomaly.LOST_WRITE: 1}
    with monkeypatch.context() as patch:

        def refuse(*_: Any, budget: Budget, **__: Any) -> None:
            assert budget.states == 0
            raise ScopeNotExhausted("too many states")

        patch.setattr(sys.modules[predict.__module__], "predict", refuse)
        found = judged(states(USUAL), lane=lane, faults=(held,), counts=counts)
        assert found.ruled_out == {Anomaly.LOST_WRITE: Status.FORBIDDEN}
    monkeypatch.setattr("kafka_chaos.verification.judging.this_run.MOST_STATES", 3)
    found = judged(states(USUAL), lane=lane, faults=(held,), counts=counts)
    assert "states" in str(reason(found))


CASES = [(replace(lane, faults=faults)) for lane, faults in product(LANES.values(), FAULT_SETS)]


def is_narrower(lane: Lane) -> bool:
    """Whether each status in this run is that for these faults, or forbidden."""
    whole, kept = predict_cached(lane), predict(plain_lane(lane), scope=Scope(kept_isr=True))
    return all(answer.status in (whole.status(one), Status.FORBIDDEN) for one, answer in kept.anomalies.items())


@pytest.mark.parametrize("lane", CASES, ids=lambda lane: f"{lane.lane}-{'+'.join(lane.faults) or 'none'}")
def test_a_status_in_this_run_is_that_for_these_faults_or_forbidden(lane: Lane) -> None:
    assert is_narrower(lane)


@pytest.mark.slow
def test_so_it_is_for_every_lane_whose_answer_ships() -> None:
    lanes = [lane for lane, lockstep in standard().values() if lockstep is None]
    assert len(lanes) > 300
    assert not [lane for lane in lanes if not is_narrower(lane)]


def run_dir(folder: Path, kept: Sequence[PartitionChanged], *, lane: dict[str, Any], lost: int) -> Path:
    """Ten acknowledged records, of which the last ones are lost, and what the logs tell of the partition."""
    rows = Rows(lanes=[{"lane": "a", "acks": "all", "faults": ["power-loss"], **lane}])
    rows.clock = 2 * MS
    rows.event("phase_started", ts_ns=2 * MS, phase="load")
    for seq in range(10 - lost):
        rows.all(seq, seq)
    for seq in range(10 - lost, 10):
        rows.send(seq, seq)
    rows.event("fault_requested", ts_ns=20 * MS, fault_id="f", kind="power-loss", resolved=["broker-1"])
    rows.event("fault_proven", ts_ns=21 * MS, fault_id="f")
    rows.event("fault_healed", ts_ns=40 * MS, fault_id="f")
    for one in kept:
        rows.event("partition_changed", **{key: value for key, value in one.to_json().items() if key != "type"})
    rows.event("phase_ended", ts_ns=60 * MS, phase="load")
    rows.prediction = {"format_version": 1, "lanes": {}}
    return rows.write(folder)


def test_a_loss_that_no_shrunken_isr_explains_is_a_violation_and_with_one_state_less_it_is_not(
    tmp_path: Path, verified: Verified
) -> None:
    complete = verified(run_dir(tmp_path / "complete", states(USUAL), lane={}, lost=3)).lanes[0]
    assert complete.verdict == Verdict.VIOLATION
    said = "lost_write is forbidden in this run (permitted for these faults) and was found: 3"
    assert complete.reasons[0] == said
    written = complete.to_json()
    assert written["anomalies"]["lost_write"]["status"] == "permitted"
    assert written["anomalies"]["lost_write"]["in_this_run"] == written["in_this_run"]["lost_write"] == "forbidden"
    assert written["ledger"]["observations"]["searched"] is True
    thinned = verified(run_dir(tmp_path / "thinned", [states(USUAL)[n] for n in (0, 2)], lane={}, lost=3)).lanes[0]
    assert thinned.verdict == Verdict.CONFORMS
    assert thinned.in_this_run == {}
