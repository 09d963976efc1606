"""What an experiment's faults need of its cluster: disks of their own for brokers, links, and clocks."""

from __future__ import annotations

from dataclasses import replace

from kafka_chaos.harness.cluster.configuration.layout import USUAL_DISK_MIB, ClusterLayout
from kafka_chaos.harness.experiment.checks.output import planned_bytes
from kafka_chaos.harness.experiment.specs import Experiment

_ROOM = 2
"""How many times the planned load has room on each disk, for indexes and for the load's own topics on one broker."""


def layout_of(experiment: Experiment) -> ClusterLayout:
    """The cluster that an experiment needs, with disks where one of its faults breaks disks, links where one acts on
    single requests, and clocks that can be moved where one moves them."""
    kinds = {type(fault) for phase in experiment.phases for fault in phase.faults()}
    layout = experiment.cluster.spec()
    if any(kind.needs_links for kind in kinds):
        layout = replace(layout, links=True)
    if any(kind.needs_clock for kind in kinds):
        layout = replace(layout, clocks=True)
    if not any(kind.needs_disk for kind in kinds):
        return layout
    return replace(layout, disk_mib=max(USUAL_DISK_MIB, _ROOM * planned_bytes(experiment) >> 20))
