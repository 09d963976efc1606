"""Phases share the lanes and the load that stand at the top: the lane LANE is called PHASE-LANE there."""

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.file import dump_experiment, parse_experiment

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
    lanes = [(phase.phase, lane.lane, lane.acks, lane.faults) for phase, _, lane in experiment.lanes]
    assert lanes == [
        ("freeze", "freeze-safe", "all", ("pause",)), ("freeze", "freeze-fast", "1", ("pause",)),
        ("quiet", "quiet-safe", "all", ()), ("quiet", "quiet-fast", "1", ()), ("own", "alone", "all", ("kill",)),
    ]  # fmt: skip
    assert [phase.workload.duration for phase in experiment.phases] == [12, 7, 12]
    written = dump_experiment(experiment, {})
    assert "\nlanes:" not in written
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
