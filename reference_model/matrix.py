"""The standard matrix: lanes and faults whose answers ship with the package and are printed in docs/model.md."""

from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.lockstep_phase import LockstepStep

LANES: dict[str, Lane] = {
    "acks=0": Lane(lane="0", acks="0"),
    "acks=1": Lane(lane="1", acks="1"),
    "acks=1, one request in flight": Lane(lane="1-1", acks="1", max_in_flight=1),
    "acks=1, unclean election": Lane(lane="1u", acks="1", unclean_leader_election=True),
    "acks=all": Lane(lane="a1", acks="all"),
    "acks=all, min ISR 2": Lane(lane="a2", acks="all", min_insync_replicas=2),
    "acks=all, min ISR 2, idempotent": Lane(lane="ai", min_insync_replicas=2, idempotence=True),
    "acks=all, min ISR 2, unclean election": Lane(lane="au", min_insync_replicas=2, unclean_leader_election=True),
    "acks=all, idempotent, unclean election": Lane(lane="aiu", idempotence=True, unclean_leader_election=True),
}

FAULT_SETS: tuple[tuple[str, ...], ...] = ((), *((kind,) for kind in FAULT_KINDS), ("kill", "kill"))

CUT_THEN_KILL = (
    LockstepStep.CUT_REPLICATION,
    LockstepStep.APPEND,
    LockstepStep.KILL_LEADER,
    LockstepStep.ELECT,
    LockstepStep.RESTART,
)
UPGRADES = (("3.6.2/zookeeper", "3.9.1/zookeeper"), ("3.9.1/zookeeper", "4.3.1/kraft"))
"""Clusters before and after."""
