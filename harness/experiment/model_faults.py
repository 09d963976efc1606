"""The faults of a schedule as the reference model counts them, where that depends on who the controllers are.

A controller that takes over gives every broker a whole new session, so the loss of one ends nobody's session. One that
was frozen together with the majority has no successor: when it runs on, it may find that no broker has sent a heartbeat
for too long, and fence them all ([why](docs/decisions/0039-kraft.md)).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.faults.fault import Fault
from kafka_chaos.harness.cluster.layout import ClusterLayout

SESSION_EXPIRY = "session-expiry"
_OF_CONTROLLERS = ("controller", "controllers")


def all_model_faults(faults: Sequence[Fault], cluster: ClusterLayout) -> Iterator[tuple[str, ...]]:
    """Fault by fault, the fault kinds of the model that it may amount to, one for each broker that it may hit."""
    for fault in faults:
        if cluster.controllers and fault.target.role in _OF_CONTROLLERS:
            yield (SESSION_EXPIRY,) * cluster.brokers
        else:
            yield fault.model_faults(cluster.brokers)
    if cluster.metadata_mode == KRAFT and not cluster.controllers and _may_stop_the_quorum(faults, cluster):
        yield (SESSION_EXPIRY,) * cluster.brokers


def _may_stop_the_quorum(faults: Sequence[Fault], cluster: ClusterLayout) -> bool:
    """Whether faults that overlap may together hit so many of the brokers that no majority of controllers is left."""
    for moment in [fault.at for fault in faults]:
        ongoing = [fault for fault in faults if fault.at <= moment <= fault.at + fault.duration]
        hit = min(cluster.voters, sum(fault.target.brokers_hit(cluster.brokers) for fault in ongoing))
        if 2 * (cluster.voters - hit) <= cluster.voters:
            return True
    return False
