"""Assesses what a lane's history can show about its share group. Pure Python, no Spark.

Guarantee: an anomaly of share groups is judged only where its evidence is there, and is otherwise named with the
reason. No lane conforms with one that was not judged.
"""

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import ShareAnomaly, share_group_of
from kafka_chaos.contract.lane.transactions import READ_COMMITTED
from kafka_chaos.contract.ledger import ShareLedger
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.facts import LaneFacts

BY_THE_STARTS = (ShareAnomaly.NEVER_DELIVERED, ShareAnomaly.ARCHIVED_EARLY)
"""Only a whole history shows these: a delivery that nobody wrote down looks like none."""
BY_TIMES = (ShareAnomaly.DELIVERED_TO_TWO, ShareAnomaly.REDELIVERED_AFTER_ACCEPT)


def not_shown(run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[AnyAnomaly, str]:
    """The anomalies that are not searched for in a lane, and why."""
    reasons: dict[AnyAnomaly, str] = {}
    share = lane.share
    if share is None:
        return reasons
    found = facts.share or ShareLedger(group=share_group_of(lane.lane))
    if not run.has_log:
        reasons[ShareAnomaly.NEVER_DELIVERED] = "there is no final log (log/)"
    elif share.isolation == READ_COMMITTED and lane.transactional is not None and not run.has("replicas"):
        reasons[ShareAnomaly.NEVER_DELIVERED] = "replicas/ does not show what the lane has committed"
    if lane.cleanup_policy is not None:
        removes = f"cleanup.policy={lane.cleanup_policy} removes records that the group has not done with"
        reasons.update(dict.fromkeys(BY_THE_STARTS, removes))
    if unfinished := list(run.events.unfinished(lane.lane)):
        why = f"phase {unfinished[0]} never ended: deliveries may have been written down nowhere"
        reasons.update(dict.fromkeys(BY_THE_STARTS, why))
    if found.unasked:
        why = f"deliveries/ does not say when {counted(found.unasked, 'delivery', 'deliveries')} were asked for"
        reasons.update(dict.fromkeys(BY_TIMES, why))
    if not found.reported:
        why = f"share_starts/ holds no start offset of group {share_group_of(lane.lane)}"
        reasons.update(dict.fromkeys((*BY_THE_STARTS, ShareAnomaly.SHARE_START_WENT_BACK), why))
    if not found.deliveries:
        why = f"deliveries/ holds no delivery of group {share_group_of(lane.lane)}"
        reasons.update(dict.fromkeys(ShareAnomaly, why))
    return reasons


def proves_nothing(run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[AnyAnomaly, str]:
    """The anomalies whose absence in a lane proves nothing, and why."""
    reasons: dict[AnyAnomaly, str] = {}
    if lane.share is None:
        return reasons
    found = facts.share or ShareLedger(group=share_group_of(lane.lane))
    if missing := lane.partitions - found.reported:
        why = f"share_starts/ holds no start offset of {counted(missing, 'partition')}"
        reasons.update(dict.fromkeys((*BY_THE_STARTS, ShareAnomaly.SHARE_START_WENT_BACK), why))
    if found.undrained:
        why = f"the group was not past the last record of {counted(found.undrained, 'partition')}"
        reasons.update(dict.fromkeys(BY_THE_STARTS, why))
    if not found.accepted:
        reasons[ShareAnomaly.REDELIVERED_AFTER_ACCEPT] = "no accept was acknowledged"
    if found.members < 2:
        reasons[ShareAnomaly.DELIVERED_TO_TWO] = "fewer than two members were given records"
    return reasons


def doubts(run: RunDirectory, lane: Lane, facts: LaneFacts) -> list[str]:
    """Why a lane with a share group can't conform, whatever was found."""
    if lane.share is None or facts.share is None or not facts.share.doubled:
        return []
    return [f"deliveries/ holds {counted(facts.share.doubled, 'row')} of the lane twice"]
