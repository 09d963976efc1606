"""Checks across the keys of an experiment: names used twice, and what its lanes and faults can't have.

Every refusal is an `ExperimentError` with its place, before anything starts.
"""

from __future__ import annotations

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.fault_kinds import FAULT_KINDS
from kafka_chaos.harness.experiment.checks.faults import check_faults
from kafka_chaos.harness.experiment.checks.lanes import check_configs, check_lanes
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError


def check(experiment: Experiment) -> None:
    """Refuse conflicts between keys; raises `ExperimentError` with the place."""
    try:
        experiment.cluster.spec()
    except UsageFailure as failure:
        raise ExperimentError(("cluster",), str(failure)) from failure
    names: set[str] = set()
    topics: set[str] = set()
    phase_names: set[str] = set()
    for number, phase in enumerate(experiment.phases):
        if phase.phase in phase_names:
            raise ExperimentError(("phases", number, "phase"), f"{phase.phase!r} names two phases")
        phase_names.add(phase.phase)
        for index, kind in enumerate(phase.outside_faults):
            if kind not in FAULT_KINDS:
                place = ("phases", number, "outside_faults", index)
                raise ExperimentError(place, f"{kind!r} is not a fault kind: expected one of {', '.join(FAULT_KINDS)}")
        check_lanes(experiment.cluster, number, phase, names, topics)
        check_faults(experiment.cluster, number, phase)
        check_configs(experiment.cluster, number, phase)
