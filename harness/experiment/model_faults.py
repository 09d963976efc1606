"""Translates the faults of a schedule into the reference model's faults, which depend on the cluster's controllers.

A controller that takes over starts every broker's session time-out anew, so the loss of a single controller costs no
broker its session. But brokers that no fault hits may lose their sessions ([why](docs/decisions/0039-kraft.md)) if no
majority of the controllers is left for a while, or if controllers that run can't reach each other or the brokers.
"""

from collections import Counter
from collections.abc import Sequence

from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.faults.coordination.reassignment import Reassignment
from kafka_chaos.faults.fault import DOWN, FROZEN, Fault, concerns
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.reference_model.protocol.quorum import has_majority

SESSION_EXPIRY = "session-expiry"
CONTROLLER_ROLES = ("controller", "controllers")  # roles of targets that hit no broker, unless brokers are controllers


def lane_faults_of(faults: Sequence[Fault], lane: str, replicas: int, cluster: ClusterLayout) -> tuple[str, ...]:
    """The model's faults for a lane with this many `replicas`, from the timed faults of its phase.

    A fault that hits n brokers may hit n replicas of a partition. While replicas move, a partition has more of them.
    """
    concerned = [fault for fault in faults if concerns(fault, lane)]
    added = max((brokers_hit(fault, cluster) for fault in concerned if isinstance(fault, Reassignment)), default=0)
    by_cause = [*(model_faults_of(fault, cluster) for fault in concerned), joint_faults_of(concerned, cluster)]
    return tuple(
        kind
        for kinds in by_cause
        for kind, count in Counter(kinds).items()
        for _ in range(min(count, replicas + added))
    )


def model_faults_of(fault: Fault, cluster: ClusterLayout) -> tuple[str, ...]:
    """The model's faults for one fault: a kind for each broker that the fault may affect."""
    if not _hits_no_broker(fault, cluster):
        return fault.model_faults(cluster.brokers)
    # A controller that is down or frozen is replaced. If it runs but can't be reached, every session may expire.
    return () if fault.holds in (DOWN, FROZEN) else (SESSION_EXPIRY,) * cluster.brokers


def joint_faults_of(faults: Sequence[Fault], cluster: ClusterLayout) -> tuple[str, ...]:
    """The model's faults for the joint effect of a schedule: all sessions expire if its faults may stop the quorum."""
    may_stop = cluster.metadata_mode == KRAFT and _may_stop_the_quorum(faults, cluster)
    return (SESSION_EXPIRY,) * cluster.brokers if may_stop else ()


def brokers_hit(fault: Fault, cluster: ClusterLayout) -> int:
    """How many of the cluster's brokers a fault hits at once."""
    return 0 if _hits_no_broker(fault, cluster) else fault.target.brokers_hit(cluster.brokers)


def _hits_no_broker(fault: Fault, cluster: ClusterLayout) -> bool:
    return bool(cluster.controllers) and fault.target.role in CONTROLLER_ROLES


def _may_stop_the_quorum(faults: Sequence[Fault], cluster: ClusterLayout) -> bool:
    """Whether faults that overlap may leave no majority of the controllers."""
    breaking = [fault for fault in faults if not fault.leaves_nodes_alone]
    for moment in [fault.at for fault in breaking]:
        ongoing = [fault for fault in breaking if fault.at <= moment <= fault.at + fault.duration]
        targets = [fault.target for fault in ongoing]
        if cluster.controllers:
            hit = sum(target.controllers_hit(cluster.controllers) for target in targets)
        else:
            hit = sum(target.brokers_hit(cluster.brokers) for target in targets)
        if not has_majority(max(0, cluster.voters - hit), cluster.voters):
            return True
    return False
