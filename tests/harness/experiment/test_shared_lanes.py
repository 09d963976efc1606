"""Phases share the lanes and the load that stand at the top: the lane LANE is called PHASE-LANE there."""

from collections import Counter
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.experiment.file import dump_experiment, experiment_of, load_experiment, parse_experiment

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


def test_a_phase_draws_from_the_shared_load() -> None:
    generate = "schedule: {generate: {faults: [kill], targets: [leader(freeze-fast)], count: 3, gap: [1, 1]}}"
    old = "schedule: [{fault: pause, target: leader(freeze-fast), at: 2, duration: 5}]"
    text = SHARED.replace("duration: 12", "duration: 60").replace(old, generate)
    phase = parse_experiment(text, "shared.yaml").phases[0]
    assert len(phase.schedule) == 3
    with pytest.raises(UsageFailure, match=r"of 3 faults fit into a load of 4 s"):
        parse_experiment(text.replace("duration: 60", "duration: 4"), "shared.yaml")


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("acks: 1", "acks: 2", "6: lanes[1].acks: '2': expected one of"),
        ("acks: 1", "ack: 1", "6: lanes[1].ack: no such key"),
        ("lane: fast", "lane: 3", "5: lanes[1].lane: expected text, got 3"),
        ("lane: fast", "lane: safe", "5: lanes[1].lane: 'freeze-safe' names two lanes"),
        ("acks: 1", "topic: clicks", "6: lanes[1].topic: 'clicks' is the topic of two lanes"),
        ("duration: 12", "duration: x", "2: workload.duration: expected a number, got 'x'"),
        ("duration: 7", "duration: x", "11: phases[1].workload.duration: expected a number, got 'x'"),
        ("leader(freeze-fast)", "leader(fast)", "9: phases[0].schedule[0].target: leader(fast): there is no lane fast"),
        ("lane: alone", "lane: a/b", "13: phases[2].lanes[0].lane: expected letters"),
        ("phase: quiet", "phase: 3", "10: phases[1].phase: expected text, got 3"),
    ],
)
def test_a_refusal_names_the_line_once(old: str, new: str, refusal: str) -> None:
    assert SHARED.count(old) == 1
    with pytest.raises(UsageFailure) as refused:
        parse_experiment(SHARED.replace(old, new), "shared.yaml")
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"shared.yaml:{refusal}")


def test_lanes_that_no_phase_takes_are_refused() -> None:
    text = "name: none\nlanes: [{lane: lost}]\nphases:\n  - phase: own\n    lanes: [{lane: alone}]\n"
    with pytest.raises(UsageFailure, match=r"^none\.yaml:2: lanes: no such key; expected name"):
        parse_experiment(text, "none.yaml")


def test_values_without_a_file_are_refused_at_the_same_place() -> None:
    values = {"name": "plain", "lanes": [{"lane": "one", "acks": "2"}], "phases": [{"phase": "a"}, {"phase": "b"}]}
    with pytest.raises(UsageFailure, match=r"^somewhere: lanes\[0\]\.acks: "):
        experiment_of(values, "somewhere")


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
