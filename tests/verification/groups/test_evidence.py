"""A lane with a group or a loop conforms only with all the evidence that its anomalies need."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.lane.groups import GROUP_ANOMALIES, LOOP_ANOMALIES, Group, GroupAnomaly, Loop
from kafka_chaos.contract.lane.groups import GroupAnomaly as A
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.contract.ledger import GroupLedger, GroupPartitionLedger
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.checkpoints import read_groups
from kafka_chaos.verification.judging.result import LaneVerdict
from kafka_chaos.verification.tables.facts import LaneFacts
from tests.verification.judging.one_lane import REPLICAS, verdict_with_all_tables
from tests.verification.samples.partitions import FULL

LANE = Lane(lane="a", group=Group(members=2))
OUTPUT = Lane(lane="out", loop=Loop(source="a", offsets="after", group=Group(members=2)))
PLACE = GroupPartitionLedger(partition=0, processed_to=9, acknowledged=10, final=10)
COUNTS = {"assignments": 2, "members": 2, "processed": 10, "acknowledged": 2, "refused": 0, "in_doubt": 0}
FACTS = GroupLedger(group="a-group", reads="a", partitions=(PLACE,), **COUNTS)
OF_LOOP = replace(FACTS, group="out-loop")


def verdict_of(*groups: GroupLedger, lane: Lane = LANE, without_input: int = 0, **evidence: Any) -> LaneVerdict:
    facts = LaneFacts({0: FULL}, 0, {0: REPLICAS}, groups=groups, without_input=without_input)
    return verdict_with_all_tables(facts, *((lane,) if lane.lane == "a" else (LANE, lane)), **evidence)


def not_judged(verdict: LaneVerdict) -> set[GroupAnomaly]:
    return {anomaly for anomaly in verdict.not_judged if isinstance(anomaly, GroupAnomaly)}


def test_a_lane_with_all_its_evidence_conforms() -> None:
    verdict = verdict_of(FACTS)
    assert (verdict.verdict, verdict.reasons, not_judged(verdict)) == (Verdict.CONFORMS, (), set())
    assert list(verdict.to_json()["ledger"]["groups"][0]["partitions"]) == [
        {"partition": 0, "processed_to": 9, "acknowledged": 10, "final": 10}
    ]
    assert verdict_of(OF_LOOP, lane=OUTPUT).verdict == Verdict.CONFORMS


def test_a_lane_without_a_group_has_nothing_of_it() -> None:
    verdict = verdict_of(lane=Lane(lane="a"))
    assert verdict.verdict == Verdict.CONFORMS
    assert "groups" not in verdict.to_json()["ledger"]


@pytest.mark.parametrize(("policy", "verdict"), [("compact,delete", Verdict.UNKNOWN), ("compact", Verdict.VIOLATION)])
def test_a_group_that_retention_may_have_set_back_lost_no_commit(policy: str, verdict: Verdict) -> None:
    lane = replace(LANE, cleanup_policy=policy)
    found = verdict_of(FACTS, lane=lane, counts={A.COMMIT_LOST: 1})
    assert found.verdict == verdict
    assert any("retention may have removed what was read" in one for one in found.reasons) == (policy != "compact")
    assert verdict_of(FACTS, lane=lane, counts={A.OWNED_TWICE: 1}).verdict == Verdict.VIOLATION


BY_THE_LOG = {*LOOP_ANOMALIES, A.SKIPPED_AFTER_REBALANCE}
BY_COMMITS = {A.NOT_PROCESSED, A.COMMIT_LOST, A.COMMIT_REGRESSED, A.SKIPPED_AFTER_REBALANCE}


@pytest.mark.parametrize(
    ("change", "unjudged", "reason"),
    [
        ({"assignments": 0}, set(GroupAnomaly), "assignments/ holds no assignment of group out-loop"),
        ({"without_generation": 2}, {A.OWNED_TWICE}, "assignments/ names no generation of 2 assignments"),
        ({"acknowledged": 0}, BY_COMMITS, "no commit of group out-loop was acknowledged"),
        ({"processed": 0}, set(GroupAnomaly), "no member of group out-loop processed a record"),
        (
            {"partitions": (replace(PLACE, final=None),)},
            {A.COMMIT_LOST},
            "groups.json does not say what group out-loop had committed in partition 0 in the end",
        ),
    ],
)
def test_what_the_evidence_does_not_show_is_not_judged(
    change: dict[str, Any], unjudged: set[GroupAnomaly], reason: str
) -> None:
    verdict = verdict_of(replace(OF_LOOP, **change), lane=OUTPUT)
    assert verdict.verdict == Verdict.UNKNOWN
    assert not_judged(verdict) == unjudged
    assert any(reason in one for one in verdict.reasons)


def test_without_any_facts_nothing_is_judged() -> None:
    assert not_judged(verdict_of()) == set(GROUP_ANOMALIES)
    assert verdict_of().verdict == Verdict.UNKNOWN


def test_without_a_log_what_was_skipped_is_not_known() -> None:
    verdict = verdict_of(OF_LOOP, lane=OUTPUT, without="log")
    assert (verdict.verdict, not_judged(verdict)) == (Verdict.UNKNOWN, BY_THE_LOG)


def test_an_output_in_transactions_needs_their_markers() -> None:
    loop = Loop(source="a", group=Group(members=2))
    lane = Lane(lane="out", idempotence=True, transactional=Transactional(producers=2), loop=loop)
    verdict = verdict_of(OF_LOOP, lane=lane)
    assert set(LOOP_ANOMALIES) <= not_judged(verdict)
    assert verdict.verdict == Verdict.UNKNOWN


def test_an_output_that_names_no_inputs_does_not_show_what_was_processed() -> None:
    assert not_judged(verdict_of(OF_LOOP, lane=OUTPUT, without_input=2)) == set(LOOP_ANOMALIES)


def test_a_cleaned_output_does_not_show_what_was_processed() -> None:
    verdict = verdict_of(OF_LOOP, lane=replace(OUTPUT, cleanup_policy="compact"))
    assert not_judged(verdict) == set(LOOP_ANOMALIES)


@pytest.mark.parametrize(
    ("groups", "values", "reason"),
    [
        ((replace(FACTS, doubled=3),), {}, "assignments/ and commits/ hold 3 rows of group a-group twice"),
        ((FACTS,), {"unread": {"commits": ("commits/x is hidden",)}}, "commits/x is hidden"),
    ],
)
def test_tables_that_contradict_themselves_are_a_doubt(
    groups: tuple[GroupLedger, ...], values: dict[str, Any], reason: str
) -> None:
    verdict = verdict_of(*groups, **values)
    assert (verdict.verdict, verdict.reasons) == (Verdict.UNKNOWN, (reason,))


def test_commits_that_were_not_read_in_full_leave_no_finding_certain() -> None:
    verdict = verdict_of(FACTS, counts={A.COMMIT_LOST: 1}, unread={"commits": ("commits/x is hidden",)})
    assert verdict.verdict == Verdict.UNKNOWN


def groups_of(folder: Path, document: object) -> Any:
    (folder / "groups.json").write_text(json.dumps(document))
    return read_groups(folder / "groups.json", (LANE, OUTPUT))


def test_the_last_committed_offsets_are_read_by_group_and_partition(tmp_path: Path) -> None:
    assert read_groups(tmp_path / "groups.json", (LANE,)) == {}
    document = {"groups": {"a-group": {"a/0": 10}, "out-loop": {"a/0": 0}}}
    assert groups_of(tmp_path, document) == {"a-group": {0: 10}, "out-loop": {0: 0}}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "(top level): expected an object"),
        ({}, "groups: expected an object of groups"),
        ({"groups": {"b": {}}}, "groups.b: no group of a lane; they are a-group, out-loop"),
        ({"groups": {"a-group": []}}, "groups.a-group: expected an object of partitions"),
        ({"groups": {"out-loop": {"out/0": 1}}}, "groups.out-loop.out/0: group 'out-loop' reads lane 'a'"),
        ({"groups": {"a-group": {"a/1": 1}}}, "groups.a-group.a/1: lane 'a' has 1 partitions"),
        ({"groups": {"a-group": {"a/0": -1}}}, "groups.a-group.a/0: -1, expected an offset of at least 0"),
        ({"groups": {"a-group": {"a/0": None}}}, "groups.a-group.a/0: None, expected an offset of at least 0"),
    ],
)
def test_offsets_that_no_group_could_have_are_refused(tmp_path: Path, document: object, problem: str) -> None:
    with pytest.raises(RunDirectoryError) as raised:
        groups_of(tmp_path, document)
    assert problem in str(raised.value)


def test_a_loop_whose_source_lost_what_was_read_is_not_judged_by_it() -> None:
    """The model takes the source to keep it: a commit past its new end is lost without any fault of the group's."""
    counts = {A.COMMIT_LOST: 1}
    assert verdict_of(OF_LOOP, lane=OUTPUT, counts=counts).verdict == Verdict.VIOLATION
    lane = verdict_of(OF_LOOP, lane=OUTPUT, counts=counts, lost_input=2)
    assert lane.verdict == Verdict.UNKNOWN
    assert "commit_lost was found: 1, but the loop's source lost 2 records" in lane.reasons
    assert verdict_of(OF_LOOP, lane=OUTPUT, lost_input=2).verdict == Verdict.CONFORMS
    twice = verdict_of(OF_LOOP, lane=OUTPUT, counts={A.OWNED_TWICE: 1}, lost_input=2)
    assert twice.verdict == Verdict.VIOLATION, "who owns a partition does not depend on its log"
    permitted = {**dict.fromkeys(OUTPUT.anomalies, Status.FORBIDDEN), A.COMMIT_LOST: Status.PERMITTED}
    lane = verdict_of(OF_LOOP, lane=OUTPUT, counts=counts, lost_input=2, statuses=permitted)
    assert lane.verdict == Verdict.CONFORMS
