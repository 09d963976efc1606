"""Refuses clock faults that would make brokers do by the clock what no prediction knows: delete, or give up."""

from __future__ import annotations

from kafka_chaos.faults.clock.clocks import MovedClock
from kafka_chaos.faults.fault import Fault
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.specs import ExperimentError, PhaseSpec


def check_clock(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    """Raise `ExperimentError` where a clock would be further off than records or transactions of a lane last."""
    if not isinstance(fault, MovedClock):
        return
    key = "percent" if fault.kind == "clock-drift" else "seconds"
    for lane in phase.lanes:
        kept = int(lane.topic_configs.get("retention.ms", cluster.broker_configs.get("log.retention.ms", -1)))
        if 0 <= kept <= fault.furthest * 1000:
            message = f"{fault.furthest:g} s is past the retention.ms of lane {lane.lane}, {kept}: brokers would delete"
            raise ExperimentError((*place, key), message)
        if lane.transactional is not None and lane.transactional.timeout_ms <= fault.furthest * 1000:
            timeout = f"the timeout_ms of lane {lane.lane}, {lane.transactional.timeout_ms}"
            message = f"{fault.furthest:g} s is past {timeout}: its coordinator would abort transactions that go on"
            raise ExperimentError((*place, key), message)
