"""Assesses what a lane's history can show about its share group. Pure Python, no Spark.

Guarantee: an anomaly of share groups is judged only where its evidence is there, and is otherwise named with the
reason. No lane conforms with one that was not judged.
"""

from collections.abc import Iterator

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import ShareAnomaly, share_group_of
from kafka_chaos.contract.lane.transactions import READ_COMMITTED
from kafka_chaos.contract.ledger import ShareLedger
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Doubt, Gap, Lack, NotSearched
from kafka_chaos.verification.tables.facts import LaneFacts

BY_THE_HISTORY = (ShareAnomaly.NEVER_DELIVERED, ShareAnomaly.ARCHIVED_EARLY)
"""Only a whole history shows these: a delivery that nobody wrote down looks like none."""
BY_THE_STARTS = (*BY_THE_HISTORY, ShareAnomaly.SHARE_START_WENT_BACK)
BY_TIMES = (ShareAnomaly.DELIVERED_TO_TWO, ShareAnomaly.REDELIVERED_AFTER_ACCEPT)


def lacks(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Lack]:
    """What the evidence about a lane's share group lacks."""
    share, group = lane.share, share_group_of(lane.lane)
    if share is None:
        return
    found = facts.share or ShareLedger(group=group)
    if not run.has_log:
        yield NotSearched("there is no final log (log/)", (ShareAnomaly.NEVER_DELIVERED,))
    elif share.isolation == READ_COMMITTED and lane.transactional is not None and not run.has("replicas"):
        yield NotSearched("replicas/ does not show what the lane has committed", (ShareAnomaly.NEVER_DELIVERED,))
    if lane.cleanup_policy is not None:
        removes = f"cleanup.policy={lane.cleanup_policy} removes records that the group has not done with"
        yield NotSearched(removes, BY_THE_HISTORY)
    if unfinished := run.events.unfinished(lane.lane):
        why = f"phase {unfinished[0]} never ended: deliveries may have been written down nowhere"
        yield NotSearched(why, BY_THE_HISTORY)
    if found.unasked:
        why = f"deliveries/ does not say when {counted(found.unasked, 'delivery', 'deliveries')} were asked for"
        yield NotSearched(why, BY_TIMES)
    if not found.reported:
        yield NotSearched(f"share_starts/ holds no start offset of group {group}", BY_THE_STARTS)
    if not found.deliveries:
        yield NotSearched(f"deliveries/ holds no delivery of group {group}", ShareAnomaly)
    if missing := lane.partitions - found.reported:
        yield Gap(f"share_starts/ holds no start offset of {counted(missing, 'partition')}", BY_THE_STARTS)
    if found.undrained:
        why = f"the group was not past the last record of {counted(found.undrained, 'partition')}"
        yield Gap(why, BY_THE_HISTORY)
    if not found.accepted:
        yield Gap("no accept was acknowledged", (ShareAnomaly.REDELIVERED_AFTER_ACCEPT,))
    if found.members < 2:
        yield Gap("fewer than two members were given records", (ShareAnomaly.DELIVERED_TO_TWO,))
    if found.doubled:
        yield Doubt(f"deliveries/ holds {counted(found.doubled, 'row')} of the lane twice")
