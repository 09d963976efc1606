"""A fault that spares other lanes is reported for those lanes alone that it concerns."""

from kafka_chaos.contract.events import Event, FaultRequested
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.observing.fault_events import FaultEvents

TEXT = """
name: moving
lanes:
  - {lane: a, acks: "1"}
  - {lane: b, acks: "1"}
schedule:
  - {fault: kill, target: broker:1, at: 1, duration: 1}
  - {fault: leader-transfer, target: leader(b), at: 5, lane: b}
  - {fault: leader-transfer, target: leader(b), at: 7}
  - {fault: kill, target: majority, at: 9}
"""


def test_the_lanes_of_a_fault() -> None:
    (phase,) = parse_experiment(TEXT, "moving.yaml").phases
    seen: list[Event] = []
    observer = FaultEvents(EventBus(seen.append), phase="main", lanes=("a", "b"), brokers=5)
    for number, fault in enumerate(phase.faults):
        observer.requested(f"f-{number}", fault, ("broker-1",), late=0.0)
    assert [(one.kind, one.lanes) for one in seen if isinstance(one, FaultRequested)] == [
        ("kill", ("a", "b")), ("leader-transfer", ("b",)), ("leader-transfer", ("a", "b")), ("kill", ("a", "b")),
    ]  # fmt: skip
    assert [len(one.model_faults) for one in seen if isinstance(one, FaultRequested)] == [1, 1, 1, 3]
