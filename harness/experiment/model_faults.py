"""The faults of a schedule as the reference model counts them, where that depends on who the controllers are.

A controller that takes over gives every broker a whole new session, so the loss of one ends nobody's session. Two
things can end those of brokers that nobody has hit ([why](docs/decisions/0039-kraft.md)): that no majority of the
controllers is left for a while, and that controllers run and do not reach each other, or the brokers.
"""

from collections.abc import Iterator, Sequence

from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.faults.fault import DOWN, FROZEN, Fault
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.reference_model.protocol.quorum import has_majority

SESSION_EXPIRY = "session-expiry"
OF_CONTROLLERS = ("controller", "controllers")
"""Roles of targets that hit no broker where controllers are no brokers."""


def all_model_faults(faults: Sequence[Fault], cluster: ClusterLayout) -> Iterator[tuple[str, ...]]:
    """Of each fault, and then of all together: the fault kinds of the model, one for each broker that may be hit."""
    for fault in faults:
        yield model_faults_of(fault, cluster)
    yield together(faults, cluster)


def model_faults_of(fault: Fault, cluster: ClusterLayout) -> tuple[str, ...]:
    """The fault kinds of the model that one fault may amount to, one for each broker that it may hit."""
    if not _hits_no_broker(fault, cluster):
        return fault.model_faults(cluster.brokers)
    silent = fault.holds in (DOWN, FROZEN)
    return () if silent else (SESSION_EXPIRY,) * cluster.brokers


def together(faults: Sequence[Fault], cluster: ClusterLayout) -> tuple[str, ...]:
    """The joint effect of the faults of a schedule: every session is over, if they may stop the quorum."""
    stopped = cluster.metadata_mode == KRAFT and _may_stop_the_quorum(faults, cluster)
    return (SESSION_EXPIRY,) * cluster.brokers if stopped else ()


def brokers_hit(fault: Fault, cluster: ClusterLayout) -> int:
    """How many of the cluster's brokers a fault hits at once."""
    return 0 if _hits_no_broker(fault, cluster) else fault.target.brokers_hit(cluster.brokers)


def _hits_no_broker(fault: Fault, cluster: ClusterLayout) -> bool:
    return bool(cluster.controllers) and fault.target.role in OF_CONTROLLERS


def _may_stop_the_quorum(faults: Sequence[Fault], cluster: ClusterLayout) -> bool:
    """Whether faults that overlap may together hit so many that no majority of the controllers is left."""
    breaking = [fault for fault in faults if not fault.leaves_nodes_alone]
    for moment in [fault.at for fault in breaking]:
        ongoing = [fault for fault in breaking if fault.at <= moment <= fault.at + fault.duration]
        hit = min(cluster.voters, sum(_controllers_hit(fault, cluster) for fault in ongoing))
        if not has_majority(cluster.voters - hit, cluster.voters):
            return True
    return False


def _controllers_hit(fault: Fault, cluster: ClusterLayout) -> int:
    if cluster.controllers:
        return fault.target.controllers_hit(cluster.controllers)
    return fault.target.brokers_hit(cluster.brokers)
