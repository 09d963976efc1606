"""Phases share the lanes and the load that stand at the top: the lane LANE is called PHASE-LANE there."""

from collections import Counter
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.experiment.file import dump_experiment, load_experiment, parse_experiment

FAMILIES = Path(__file__).parents[3] / "experiments" / "nightly" / "families.yaml"
SHARED = """\
name: shared
workload: {duration: 12}
lanes:
  - lane: safe
  - lane: fast
    acks: 1
phases:
  - phase: freeze
    schedule: [{fault: pause, target: leader(freeze-fast), at: 2, duration: 5}]
  - phase: quiet
    workload: {duration: 7}
  - phase: own
    lanes: [{lane: alone}]
    schedule: [{fault: kill, target: leader(alone), at: 2}]
"""


def test_each_phase_has_the_shared_lanes_under_names_of_its_own() -> None:
    experiment = parse_experiment(SHARED, "shared.yaml")
    lanes = [(phase.phase, lane.lane, lane.acks, lane.faults) for phase, _, lane in experiment.lanes()]
    assert lanes == [
        ("freeze", "freeze-safe", "all", ("pause",)),
        ("freeze", "freeze-fast", "1", ("pause",)),
        ("quiet", "quiet-safe", "all", ()),
        ("quiet", "quiet-fast", "1", ()),
        ("own", "alone", "all", ("kill",)),
    ]
    assert [phase.workload.duration for phase in experiment.phases] == [12, 7, 12]


def test_what_is_written_out_has_them_in_each_phase() -> None:
    experiment = parse_experiment(SHARED, "shared.yaml")
    written = dump_experiment(experiment, {})
    assert "\nphases:" in written
    assert "\nlanes:" not in written
    assert "\nworkload:" not in written
    assert parse_experiment(written, "again.yaml") == experiment


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("acks: 1", "acks: 2", "6: lanes[1].acks: '2': expected one of"),
        ("lane: fast", "lane: safe", "5: lanes[1].lane: 'freeze-safe' names two lanes"),
        ("acks: 1", "topic: clicks", "6: lanes[1].topic: 'clicks' is the topic of two lanes"),
        ("duration: 7", "duration: x", "11: phases[1].workload.duration: expected a number, got 'x'"),
        ("leader(freeze-fast)", "leader(fast)", "9: phases[0].schedule[0].target: leader(fast): there is no lane fast"),
        ("lane: alone", "lane: a/b", "13: phases[2].lanes[0].lane: expected letters"),
    ],
)
def test_a_refusal_names_the_line_once(old: str, new: str, refusal: str) -> None:
    assert SHARED.count(old) == 1
    with pytest.raises(UsageFailure) as refused:
        parse_experiment(SHARED.replace(old, new), "shared.yaml")
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"shared.yaml:{refusal}")


def test_the_families_of_the_nightly_job_break_the_same_24_lanes_by_two_kinds_each() -> None:
    experiment = load_experiment(FAMILIES)
    folders: Counter[str] = Counter()
    for phase in experiment.phases:
        lanes = {
            (lane.acks, lane.idempotence, lane.min_insync_replicas, lane.unclean_leader_election, lane.partitions)
            for lane in phase.lanes
        }
        crossed = {
            (acks, idempotence, minimum, unclean, 3 if spread else 1)
            for acks, idempotence in (("0", False), ("1", False), ("all", False), ("all", True))
            for minimum in (1, 2)
            for unclean, spread in ((False, False), (True, False), (False, True))
        }
        assert lanes == crossed
        assert len(lanes) == len(phase.lanes) == 24
        (family,) = {fault_kinds()[fault.kind].__module__.split(".")[2] for fault in phase.faults()}
        folders[family] += len({fault.kind for fault in phase.faults()})
    assert folders == dict.fromkeys(("process", "network", "links", "storage", "coordination", "clock"), 2)
