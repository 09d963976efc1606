"""Predicts what a consumer group, a loop or a share group of a lane may show.

For groups and loops this module asks the model of groups (`groups/`). The model of replication decides what a log may
lose (`prediction.py`), and the model of transactions how a transaction may end (`transactions/`). What that costs
groups and loops, and all that needs no loss, `groups/` searches. Any member may be removed without knowing it, whatever
the lane's faults and its load are: it only has to be slow for longer than `max.poll.interval.ms`. Members crash only
where the load says so.

Share groups have no search, but rules with their sources. A share-partition's leader holds the state of each record in
flight, AVAILABLE, ACQUIRED, ACKNOWLEDGED or ARCHIVED, and the offset at which these begin (KIP-932, "In-flight
records"). Four rules decide what may be lost of this state:

- An acknowledgement is answered once the share coordinator has written the new state to `__share_group_state`, with
  acks=all. So an accept that was acknowledged is as durable as an acknowledged record of that topic; one whose outcome
  is `info` may have taken effect or not.
- Acquisition is not written: a new leader reads the coordinator's state, to which a record in hand is AVAILABLE.
- A lock that runs out, a member that is gone, and a session that ends make a record AVAILABLE again.
- A record of which a member never saw a delivery has used one up all the same; at the limit, it is ARCHIVED.

A leader or a coordinator that was deposed and does not know it can't write, since the share coordinator refuses older
epochs. But it still gives out records, and start offsets, by the state that it had. If a log loses records that the
group is past, others take their offsets and are never delivered, and a start offset past the log's end is set back.
"""

from collections.abc import Iterable, Iterator, Mapping

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import IN_TRANSACTION, LATEST, Group, GroupAnomaly
from kafka_chaos.contract.lane.lanes import SHARE_STATE, Lane
from kafka_chaos.contract.lane.share import Share, ShareAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.groups.examine import stories_of_torn_ends
from kafka_chaos.reference_model.groups.rules import rules_of_group
from kafka_chaos.reference_model.groups.state import Setup
from kafka_chaos.reference_model.machine import Findings, Story
from kafka_chaos.reference_model.predict.defects import DefectTrace, by_anomaly
from kafka_chaos.reference_model.predict.result import AnomalyPrediction, Prediction, answers_from
from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS

TEARS = (
    TransactionAnomaly.TORN_TRANSACTION,
    TransactionAnomaly.LOST_TRANSACTION,
    TransactionAnomaly.ZOMBIE_COMMIT,
    TransactionAnomaly.ABORTED_READ,
)
"""If a transaction may show one of these anomalies, its output and its offsets may end differently."""


_COUNTS_END = "A member is told of the end of a partition, and its position moves on by one, over no record."
_MISSED = "There it commits, or goes on after a rebalance: the next record is given to nobody."
_STARTS_OVER = (
    "No record comes, and after a rebalance it asks for the one behind the end (OFFSET_OUT_OF_RANGE): it begins again "
    "where auto.offset.reset says, behind what it has committed."
)
MISSED: Mapping[GroupAnomaly, str] = {
    GroupAnomaly.SKIPPED_AFTER_REBALANCE: _MISSED,
    GroupAnomaly.NOT_PROCESSED: _MISSED,
    GroupAnomaly.COMMIT_LOST: _STARTS_OVER,
    GroupAnomaly.COMMIT_REGRESSED: _STARTS_OVER,
    GroupAnomaly.PROCESSED_TWICE: _STARTS_OVER,
}
"""By anomaly, how it follows from a position that has moved over the end of a partition (librdkafka-4844)."""


def questions_of(lane: Lane, plain: Prediction, *, fails: bool, offsets_may_be_lost: bool) -> Iterator[Setup]:
    """The lane's questions to the model of groups, one for its group and one for its loop.

    `plain`: the prediction for the lane's records. `fails`: whether brokers may fail.
    """

    def question(group: Group, commits: str, **more: bool) -> Setup:
        return Setup(
            rules_of_group(group),
            commits,
            is_static=group.static,
            crashes=int(group.crashes > 0),
            removals=1,
            joins=int(group.members > 1 or group.joins > 0),
            leaves=int(group.leaves > 0),
            failovers=int(fails),
            offsets_may_be_lost=offsets_may_be_lost,
            resets_to_end=group.reset == LATEST,
            **more,
        )

    if lane.group is not None:
        lossy = plain.status(Anomaly.TRUNCATED_READ) is not Status.FORBIDDEN
        yield question(lane.group, lane.group.commits, source_may_lose=lossy)
    if lane.loop is not None:
        lossy = plain.status(Anomaly.LOST_WRITE) is not Status.FORBIDDEN
        in_transaction = lane.loop.offsets == IN_TRANSACTION
        tears = in_transaction and any(plain.status(anomaly) is not Status.FORBIDDEN for anomaly in TEARS)
        of_loop = {"is_loop": True, "output_may_lose": lossy, "ends_may_tear": tears}
        yield question(lane.loop.group, lane.loop.offsets, **of_loop)


def answers_of_groups(
    lane: Lane, asked: Mapping[Setup, Findings[GroupAnomaly]], answers: Prediction
) -> dict[AnyAnomaly, AnomalyPrediction]:
    """The prediction for every anomaly of groups that the lane may show, from complete searches."""
    states = sum(found.states for found in asked.values())
    none = f"scope exhausted: none of {states} states of the machine of groups shows it"
    stories: dict[GroupAnomaly, Story] = {}
    for found in asked.values():
        stories = {**found.stories, **stories}
    return answers_from(lane.group_anomalies, stories, none, by_anomaly([*_torn(asked, answers), *_moved(lane)]))


def _moved(lane: Lane) -> Iterator[tuple[GroupAnomaly, DefectTrace]]:
    """The traces of librdkafka-4844: a member's position, from which it goes on after a rebalance, is too far."""
    defect = KNOWN_DEFECTS["librdkafka-4844"]
    if defect.concerns(lane):
        for anomaly, why in MISSED.items():
            if anomaly in lane.group_anomalies:
                yield anomaly, DefectTrace((defect,), (_COUNTS_END, why))


def _torn(asked: Iterable[Setup], answers: Prediction) -> Iterator[tuple[GroupAnomaly, DefectTrace]]:
    """The traces of known defects that tear transactions, for a loop that commits its offsets in them."""
    torn = answers.anomalies.get(TransactionAnomaly.TORN_TRANSACTION)
    for question in asked:
        for trace in torn.known_defects if torn is not None and question.commits == IN_TRANSACTION else ():
            for anomaly, why in stories_of_torn_ends(question).items():
                yield anomaly, DefectTrace(trace.defects, why)


_FORBIDDEN: Mapping[ShareAnomaly, str] = {
    ShareAnomaly.NEVER_DELIVERED: "the group's start offset passes a record only once it is accepted, rejected, or was "
    "delivered as often as the limit allows (KIP-932, share-partition start offset)",
    ShareAnomaly.DELIVERED_TO_TWO: "a leader lends an acquired record to nobody else before its lock runs out or its "
    "member gives it back (KIP-932, acquisition locks)",
    ShareAnomaly.REDELIVERED_AFTER_ACCEPT: "an accept is answered once the share coordinator has written it to "
    f"{SHARE_STATE} with acks=all, and every later leader begins with what is written there (KIP-932)",
    ShareAnomaly.PAST_DELIVERY_LIMIT: "a record whose delivery count has reached the limit is archived when it would "
    "become available again; what is lost of a count lets it begin lower (KIP-932, delivery count)",
    ShareAnomaly.ARCHIVED_EARLY: "only a rejected record, and one that was delivered as often as the limit allows, is "
    "archived; deliveries that nobody may have seen are counted by the statement (KIP-932, in-flight records)",
    ShareAnomaly.SHARE_START_WENT_BACK: "the start offset only moves forward, and is written by the share coordinator "
    "with a state epoch and the leader's epoch, by which it refuses older leaders (KIP-932, share coordinator)",
}
_OF_STATE = (ShareAnomaly.REDELIVERED_AFTER_ACCEPT, ShareAnomaly.SHARE_START_WENT_BACK)
_DEPOSED_ALIVE = frozenset({"pause", "partition", "session-expiry"})
"""The faults after which a deposed broker goes on running. Other faults end its process."""
_OF_LOG = (*_OF_STATE, ShareAnomaly.NEVER_DELIVERED, ShareAnomaly.ARCHIVED_EARLY)


def answers_of_share(
    lane: Lane, share: Share, plain: Prediction, *, state_may_be_lost: bool
) -> dict[AnyAnomaly, AnomalyPrediction]:
    """The prediction for every anomaly of share groups. `plain`: the prediction for the lane's records."""
    permitted: dict[ShareAnomaly, str] = {}
    if any(plain.status(one) is not Status.FORBIDDEN for one in (Anomaly.TRUNCATED_READ, Anomaly.LOST_WRITE)):
        why = "the lane's log may lose records that the group is past: others take their offsets, or the group's start "
        permitted.update(dict.fromkeys(_OF_LOG, why + "offset is past the log's end and is set back"))
    if state_may_be_lost:
        why = (
            f"{SHARE_STATE} may lose what the share coordinator has acknowledged, and the next leader begins before it"
        )
        permitted.update(dict.fromkeys(_OF_STATE, why))
    if _DEPOSED_ALIVE & {*lane.faults}:
        why = (
            "a broker that was deposed and does not know it gives out records, and start offsets, by the state that it "
            "had: what it can't do is write (KIP-932, share-partition leader epoch)"
        )
        for anomaly in _OF_STATE:
            permitted.setdefault(anomaly, why)
    lost = share.lost_deliveries(len(lane.faults))
    if lost >= share.delivery_limit:
        why = f"up to {lost} deliveries of a record may reach nobody (faults, and members that crash, freeze, join and "
        permitted.setdefault(
            ShareAnomaly.NEVER_DELIVERED,
            f"{why}leave), and after {share.delivery_limit} it is archived (KIP-932, delivery count)",
        )
    if lane.faults:
        permitted[ShareAnomaly.DELIVERED_TO_TWO] = (
            "acquisition is not persisted: after a change of leader the record is available while the first member "
            "still has it, and a broker that hangs may give it late (KIP-932, share-partition leader election)"
        )
    return {
        anomaly: AnomalyPrediction(Status.PERMITTED, (permitted[anomaly],))
        if anomaly in permitted
        else AnomalyPrediction(Status.FORBIDDEN, (f"By the rules of share groups: {rule}.",))
        for anomaly, rule in _FORBIDDEN.items()
    }
