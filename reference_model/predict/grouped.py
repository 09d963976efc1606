"""A lane that a consumer group reads, or that a loop writes: what it asks the machine of groups, and the answers to it.

Replication decides what a log may lose (`prediction.py`), and `transactions/` how a transaction may end; what that
costs groups and loops, and all that needs no loss, is for `groups/` to search.

Any member may be removed without knowing it, whatever the lane's faults and its load are: it only has to be slow for
longer than `max.poll.interval.ms`. Members crash only where the load says so.
"""

from collections.abc import Iterable, Iterator, Mapping

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import IN_TRANSACTION, LATEST, Group, GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.groups.examine import stories_of_torn_ends
from kafka_chaos.reference_model.groups.rules import rules_of_group
from kafka_chaos.reference_model.groups.state import Setup
from kafka_chaos.reference_model.machine import Findings, Story
from kafka_chaos.reference_model.predict.defects import DefectTrace, by_anomaly
from kafka_chaos.reference_model.predict.result import AnomalyPrediction, Prediction, answers_from

TEARS = (
    TransactionAnomaly.TORN_TRANSACTION,
    TransactionAnomaly.LOST_TRANSACTION,
    TransactionAnomaly.ZOMBIE_COMMIT,
    TransactionAnomaly.ABORTED_READ,
)
"""Where a transaction may show one of these, its output and its offsets may end differently."""


def questions_of(lane: Lane, plain: Prediction, *, fails: bool, offsets_may_be_lost: bool) -> Iterator[Setup]:
    """The questions of the lane: one for its group, one for its loop. `fails`: whether brokers may fail."""

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
    """The prediction for every anomaly of groups that concerns the lane, from complete searches."""
    states = sum(found.states for found in asked.values())
    none = f"scope exhausted: none of {states} states of the machine of groups shows it"
    stories: dict[GroupAnomaly, Story] = {}
    for found in asked.values():
        stories = {**found.stories, **stories}
    return answers_from(lane.group_anomalies, stories, none, by_anomaly(_traces(asked, answers)))


def _traces(asked: Iterable[Setup], answers: Prediction) -> Iterator[tuple[GroupAnomaly, DefectTrace]]:
    """The traces of known defects that tear transactions, for a loop that commits its offsets in them."""
    torn = answers.anomalies.get(TransactionAnomaly.TORN_TRANSACTION)
    for question in asked:
        for trace in torn.known_defects if torn is not None and question.commits == IN_TRANSACTION else ():
            for anomaly, why in stories_of_torn_ends(question).items():
                yield anomaly, DefectTrace(trace.defects, why)
