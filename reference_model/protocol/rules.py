"""The rules of replication that a cluster follows, by its version and its metadata mode.

| rule | since | source |
| --- | --- | --- |
| a new follower truncates to the end of its last epoch, and no longer to its high watermark | 0.11 | KIP-101 |
| it truncates to the last common epoch | 2.0 | KIP-279 |
| followers are fenced by leader epoch | 2.1 | KIP-320 |
| the high watermark waits while the ISR is below min.insync.replicas, in both modes | 3.7 | KAFKA-15583 |
| in KRaft mode, `unclean.leader.election.enable` has an effect | 3.9 | KAFKA-12670 |
| `flush.messages: 1` flushes a new segment's directory, too, before a record counts as appended | 3.0 | KAFKA-3968 |
| leaders are elected from the eligible leader replicas, in KRaft mode, where they are on | 4.0, on in new clusters \
since 4.1 | KIP-966 |

Versions and modes with the same rules have the same answers. Other differences between them change no answer:

- How a broker is found dead: its ZooKeeper session expires, or the controller misses its heartbeats
  (`broker.session.timeout.ms`) and fences it (KIP-631). Either may take any time in the model.
- Who writes the ISR: before 2.7 the leader, to ZooKeeper; since then, and always in KRaft mode, the controller
  (AlterPartition, KIP-497). Either way, a leader that has been replaced is refused.
- Broker epochs in AlterPartition (KIP-903, since 3.5, in KRaft mode): before, a follower could join the ISR after it
  had lost its log's end. One power loss has the same effect anyway: each cluster without eligible replicas elects
  the last member of the ISR, whatever it has lost.
- An unclean shutdown is detected since 3.7, but without eligible replicas the last member stays in the ISR and leads
  when it is back, as it does with ZooKeeper.
- Without a majority of controllers there is no election and no change of an ISR, while leaders go on serving
  (`quorum.py`). The model lets both take any time. If a controller then finds all sessions ended, this is the fault
  `session-expiry`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from kafka_chaos.contract.lane import metadata
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.protocol import PROTOCOLS, Protocol

TRUNCATION_SINCE: Mapping[metadata.Release, str] = {
    (0, 0): "truncate-to-high-watermark",
    (0, 11): "kip101",
    (2, 0): "kip279",
    (2, 1): "kip320",
}
"""The variant of `PROTOCOLS` that each release and those after it follow."""

WATERMARK_WAITS_SINCE: metadata.Release = (3, 7)
FLUSHES_SINCE: metadata.Release = (3, 0)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a lane that depend on version and metadata mode.

    `variant` names truncation and fencing, in `PROTOCOLS`. `watermark_waits`: whether the high watermark stands still
    while the ISR is below min.insync.replicas. `elects_eligible`: whether leaders are elected from the eligible leader
    replicas.
    """

    variant: str
    watermark_waits: bool
    elects_eligible: bool

    @property
    def protocol(self) -> Protocol:
        """The variant of the replication protocol."""
        return PROTOCOLS[self.variant]

    @property
    def limits(self) -> tuple[str, ...]:
        """The parts of these rules that the lane's model lacks: an answer without them may be too strict."""
        if self.protocol.fenced:
            return ()
        return (
            "Before 2.1, followers are not fenced by leader epoch (KIP-320). Here every live broker learns of an "
            "election at once, so what a late follower may do is missing: a forbidden anomaly may occur. "
            f"`explore --protocol {self.variant}` shows how.",
        )


@cache
def rules_in(version: str | None, mode: str | None, elr: bool | None) -> Rules:
    """The rules of a cluster. Defaults: version 3.9.1; ZooKeeper if the version has it; for `elr` (eligible leader
    replicas), what new clusters have."""
    version = version or metadata.USUAL_VERSION
    since = max(first for first in TRUNCATION_SINCE if first <= metadata.release(version))
    return Rules(
        variant=TRUNCATION_SINCE[since],
        watermark_waits=metadata.release(version) >= WATERMARK_WAITS_SINCE,
        elects_eligible=metadata.elects_from_elr(version, mode or metadata.usual_mode(version), elr),
    )


def as_obeyed(lane: Lane) -> Lane:
    """The lane without unclean elections if its controllers ignore the config, or flushes that would change nothing."""
    unclean = lane.unclean_leader_election and metadata.may_elect_uncleanly(lane.version, lane.mode)
    flushes = lane.flushes and "power-loss" in lane.faults and metadata.release(lane.version) >= FLUSHES_SINCE
    return replace(lane, unclean_leader_election=unclean, flushes=flushes)


def rules_of(lane: Lane) -> Rules:
    """The rules that a lane's answers depend on: its cluster's. Rules that change no answer have fixed values."""
    return _rules_in_lane(lane.kafka_version, lane.metadata_mode, lane.elr, lane.min_insync_replicas > 1)


@cache
def _rules_in_lane(version: str | None, mode: str | None, elr: bool | None, has_minimum: bool) -> Rules:
    """The rules of a cluster. With min.insync.replicas=1, two rules have fixed values, since they change nothing.

    Then a leader's ISR is always large enough, so no high watermark waits under either rule. The only replica that
    could become eligible is the last member of the ISR. It leads when it is back, just as without eligible replicas,
    where it stays in the ISR.
    """
    rules = rules_in(version, mode, elr)
    return rules if has_minimum else Rules(rules.variant, watermark_waits=True, elects_eligible=False)
