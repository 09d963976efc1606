"""Predicts what a consumer group, a loop or a share group of a lane may show.

For groups and loops this module asks the model of groups (`groups/`). The model of replication decides what a log may
lose (`prediction.py`), and the model of transactions how a transaction may end (`transactions/`). Then `groups/`
searches which anomalies groups and loops may show because of such losses and ends, and which they show without any. Any
member may be removed without noticing, whatever the lane's faults and its load are: it only has to be slow for longer
than `max.poll.interval.ms`. Members crash only where the load says so.

Share groups are not searched: rules with their sources (`share_groups.toml`) say what they may show. A
share-partition's leader holds the state of each record in flight, AVAILABLE, ACQUIRED, ACKNOWLEDGED or ARCHIVED, and
the start offset, at which these begin (KIP-932, "In-flight records"). Four rules decide what may be lost of this state:

- An acknowledgement is answered once the share coordinator has written the new state to `__share_group_state`, with
  acks=all. So an accept that was acknowledged is as durable as an acknowledged record of that topic; one whose outcome
  is `info` may have taken effect or not.
- Acquisition is not written: a new leader reads the coordinator's state, in which an acquired record is AVAILABLE.
- A lock that runs out, a member that is gone, and a session that ends make a record AVAILABLE again.
- A delivery counts even if it never reached the member. At the delivery limit, the record is ARCHIVED.

A share-partition's leader or a share coordinator may have been deposed without noticing. Then it can't write state any
more, since older epochs are refused, but it still gives out records, and start offsets, by the state that it had. If a
log loses records below the group's start offset, later records take the offsets of the lost ones and are never
delivered; a start offset past the log's end is set back.

Dead letters (KIP-1191, Kafka 4.4): where a record would be ARCHIVED, the leader first writes it as ARCHIVING, then its
dead letter, with acks=all and without idempotence, and then ARCHIVED. So nobody is told of the letter; whoever leads
next writes the letters of all records that it finds in ARCHIVING; and a letter that can't be written is given up.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import IN_TRANSACTION, LATEST, Group, GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import OF_DEAD_LETTERS, Share, ShareAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.groups.examine import stories_of_torn_ends
from kafka_chaos.reference_model.groups.rules import rules_of_group
from kafka_chaos.reference_model.groups.state import Setup
from kafka_chaos.reference_model.machine import Findings, Story
from kafka_chaos.reference_model.predict.defects import DefectTrace, by_anomaly
from kafka_chaos.reference_model.predict.result import AnomalyPrediction, Prediction, answers_from
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS

TEARING_ANOMALIES = (
    TransactionAnomaly.TORN_TRANSACTION,
    TransactionAnomaly.LOST_TRANSACTION,
    TransactionAnomaly.ZOMBIE_COMMIT,
    TransactionAnomaly.ABORTED_READ,
)
"""If a lane may show one of these, a transaction may be committed for its output alone, or for its offsets alone."""


def questions_of(lane: Lane, plain: Prediction, *, brokers_fail: bool, offsets_may_be_lost: bool) -> Iterator[Setup]:
    """The lane's questions to the model of groups, one for its group and one for its loop.

    `plain`: the prediction for the lane's records and transactions. `offsets_may_be_lost`: whether
    `__consumer_offsets` may lose acknowledged commits.
    """

    def question(group: Group, commits: str, **more: bool) -> Setup:
        # One event of each kind that the group may have is enough: `groups/examine.py` describes the scopes.
        return Setup(
            rules_of_group(group, lane.version),
            commits,
            is_static=group.static,
            crashes=int(group.crashes > 0),
            removals=1,
            joins=int(group.members > 1 or group.joins > 0),
            leaves=int(group.leaves > 0),
            failovers=int(brokers_fail),
            offsets_may_be_lost=offsets_may_be_lost,
            resets_to_end=group.reset == LATEST,
            **more,
        )

    if lane.group is not None:
        # The loss of a record that no member was given changes nothing for the group.
        loses_reads = plain.status(Anomaly.TRUNCATED_READ) is not Status.FORBIDDEN
        yield question(lane.group, lane.group.commits, source_may_lose=loses_reads)
    if lane.loop is not None:
        loses_output = plain.status(Anomaly.LOST_WRITE) is not Status.FORBIDDEN
        group, commits = lane.loop.group, lane.loop.offsets
        tearing = TEARING_ANOMALIES if commits == IN_TRANSACTION else ()
        may_tear = any(plain.status(anomaly) is not Status.FORBIDDEN for anomaly in tearing)
        yield question(group, commits, is_loop=True, output_may_lose=loses_output, ends_may_tear=may_tear)


def answers_of_groups(
    lane: Lane, asked: Mapping[Setup, Findings[GroupAnomaly]], plain: Prediction
) -> dict[AnyAnomaly, AnomalyPrediction]:
    """The prediction for the lane's anomalies of groups. `asked`: its questions, with what complete searches found."""
    states = sum(findings.states for findings in asked.values())
    why_forbidden = f"scope exhausted: none of {states} states of the machine of groups shows it"
    stories: dict[GroupAnomaly, Story] = {}
    for findings in asked.values():
        stories = findings.stories | stories
    traces = by_anomaly([*_defects_of_transactions(asked, plain), *_defects_of_positions(lane)])
    return answers_from(lane.group_anomalies, stories, why_forbidden, traces)


def _defects_of_positions(lane: Lane) -> Iterator[tuple[GroupAnomaly, DefectTrace]]:
    """The traces of librdkafka-4844: a member goes on after a rebalance from a position that lies too far ahead."""
    defect = MODELLED_DEFECTS["librdkafka-4844"]
    if defect.concerns(lane):
        texts = package_toml(__package__, "notes.toml")[defect.id]
        for anomaly in lane.group_anomalies:
            if anomaly in texts:
                yield anomaly, DefectTrace((defect,), (texts["begins"], texts[anomaly]))


def _defects_of_transactions(asked: Iterable[Setup], plain: Prediction) -> Iterator[tuple[GroupAnomaly, DefectTrace]]:
    """The traces of known defects that tear transactions, for a loop that commits its offsets in transactions."""
    torn = plain.anomalies.get(TransactionAnomaly.TORN_TRANSACTION)
    for question, trace in product(asked, () if torn is None else torn.known_defects):
        if question.commits == IN_TRANSACTION:
            for anomaly, why in stories_of_torn_ends(question).items():
                yield anomaly, DefectTrace(trace.defects, why)


RULES_OF_SHARE_GROUPS: Mapping[str, Mapping[str, str]] = package_toml(__package__, "share_groups.toml")
_FROM_OLD_STATE = (ShareAnomaly.REDELIVERED_AFTER_ACCEPT, ShareAnomaly.SHARE_START_WENT_BACK)
"""The anomalies that a leader can cause if it goes by an earlier state than the one acknowledged last."""
_FROM_LOST_RECORDS = (*_FROM_OLD_STATE, ShareAnomaly.NEVER_DELIVERED, ShareAnomaly.ARCHIVED_EARLY)
_DEPOSED_ALIVE = frozenset({"pause", "partition", "session-expiry"})
"""The faults after which a deposed broker goes on running. Other faults end its process."""


def answers_of_share(
    lane: Lane, share: Share, plain: Prediction, *, state_may_be_lost: bool
) -> dict[AnyAnomaly, AnomalyPrediction]:
    """The prediction for every anomaly of share groups. `plain`: the prediction for the lane's records."""
    lost_deliveries = share.lost_deliveries(len(lane.faults))
    losses = (Anomaly.TRUNCATED_READ, Anomaly.LOST_WRITE)
    log_may_lose = any(plain.status(anomaly) is not Status.FORBIDDEN for anomaly in losses)
    # A group without a state begins where `share.auto.offset.reset` says, as a new one does (KIP-932).
    of_lost_state = _FROM_LOST_RECORDS if share.start == LATEST else _FROM_OLD_STATE
    permitting = (
        # A rule of share_groups.toml, whether it applies, what it permits. The first that applies is the reason told.
        ("state_is_lost", state_may_be_lost, (*of_lost_state, *OF_DEAD_LETTERS)),
        ("log_loses", log_may_lose, (*_FROM_LOST_RECORDS, *OF_DEAD_LETTERS)),
        ("deposed_runs_on", bool(_DEPOSED_ALIVE & {*lane.faults}), _FROM_OLD_STATE),
        # A slow follower is enough for both.
        ("letter_is_given_up", True, (ShareAnomaly.DEAD_LETTER_MISSING,)),
        ("letter_is_repeated", True, (ShareAnomaly.DEAD_LETTER_DOUBLED,)),
        ("deliveries_reach_nobody", lost_deliveries >= share.delivery_limit, (ShareAnomaly.NEVER_DELIVERED,)),
        # A record that is archived early was given to a member once: all its other deliveries were lost.
        ("deliveries_reach_nobody", lost_deliveries + 1 >= share.delivery_limit, (ShareAnomaly.ARCHIVED_EARLY,)),
        ("leader_changes", bool(lane.faults), (ShareAnomaly.DELIVERED_TO_TWO,)),
    )
    reasons: dict[ShareAnomaly, str] = {}
    for rule, applies, anomalies in permitting:
        text = RULES_OF_SHARE_GROUPS["permitted"][rule].format(lost=lost_deliveries, limit=share.delivery_limit)
        for anomaly in anomalies if applies else ():
            reasons.setdefault(anomaly, text)
    permitted = {anomaly: AnomalyPrediction(Status.PERMITTED, (reason,)) for anomaly, reason in reasons.items()}
    forbidden = {
        anomaly: AnomalyPrediction(Status.FORBIDDEN, (f"By the rules of share groups: {why}.",))
        for anomaly, why in RULES_OF_SHARE_GROUPS["forbidden"].items()
    }
    return {anomaly: permitted.get(anomaly) or forbidden[anomaly] for anomaly in share.anomalies}
