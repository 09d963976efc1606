"""A lane that a consumer group reads, or that a loop writes: what it asks the machine of groups, and the answers to it.

Replication decides what a log may lose (`prediction.py`), and `transactions/` how a transaction may end; what that
costs groups and loops, and all that needs no loss, is for `groups/` to search.

Any member may be removed without knowing it, whatever the lane's faults and its load are: it only has to be slow for
longer than `max.poll.interval.ms`. Members crash only where the load says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.groups import IN_TRANSACTION, Group, GroupAnomaly
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import TransactionAnomaly
from kafka_chaos.reference_model.groups.examine import Findings, Question, stories_of_torn_ends
from kafka_chaos.reference_model.groups.rules import rules_of_group
from kafka_chaos.reference_model.predict.defects import DefectTrace
from kafka_chaos.reference_model.predict.result import AnomalyPrediction, Prediction, Story

TEARS = (
    TransactionAnomaly.TORN_TRANSACTION,
    TransactionAnomaly.LOST_TRANSACTION,
    TransactionAnomaly.ZOMBIE_COMMIT,
    TransactionAnomaly.ABORTED_READ,
)
"""Where a transaction may show one of these, its output and its offsets may end differently."""
OFFSETS_MIN_ISR = 1
"""`min.insync.replicas` of __consumer_offsets in the project's clusters: the least that replication may keep."""


def questions_of(lane: Lane, plain: Prediction, *, fails: bool, offsets_may_be_lost: bool) -> Iterator[Question]:
    """What the lane asks: one question for its group, one for its loop. `fails`: whether brokers may fail."""

    def question(group: Group, commits: str) -> Question:
        return _question(group, commits, fails=fails, offsets_may_be_lost=offsets_may_be_lost)

    if lane.group is not None:
        lossy = plain.status(Anomaly.TRUNCATED_READ) is not Status.FORBIDDEN
        yield replace(question(lane.group, lane.group.commits), source_may_lose=lossy)
    if lane.loop is not None:
        lossy = plain.status(Anomaly.LOST_WRITE) is not Status.FORBIDDEN
        in_transaction = lane.loop.offsets == IN_TRANSACTION
        tears = in_transaction and any(plain.transactions[anomaly].status is not Status.FORBIDDEN for anomaly in TEARS)
        of_loop = question(lane.loop.group, lane.loop.offsets)
        yield replace(of_loop, is_loop=True, output_may_lose=lossy, ends_may_tear=tears)


def _question(group: Group, commits: str, *, fails: bool, offsets_may_be_lost: bool) -> Question:
    return Question(
        rules_of_group(group),
        commits,
        is_static=group.static,
        crash=group.crashes > 0,
        are_removed=True,
        several=group.members > 1 or group.joins > 0,
        leave=group.leaves > 0,
        brokers_may_fail=fails,
        offsets_may_be_lost=offsets_may_be_lost,
    )


def consumer_offsets_of(lane: Lane) -> Lane:
    """__consumer_offsets as a lane: what may happen to an entry of the coordinator's log under the lane's faults."""
    return replace(
        lane,
        lane="__consumer_offsets",
        acks="all",
        min_insync_replicas=OFFSETS_MIN_ISR,
        unclean_leader_election=False,
        idempotence=False,
        transactional=None,
        group=None,
        loop=None,
    )


def answers_of_groups(
    lane: Lane, asked: Mapping[Question, Findings], plain: Prediction
) -> dict[GroupAnomaly, AnomalyPrediction]:
    """The prediction for every anomaly of groups that concerns the lane, from complete searches."""
    states = sum(found.states for found in asked.values())
    none: Story = (f"scope exhausted: none of {states} states of the machine of groups shows it",)
    stories: dict[GroupAnomaly, Story] = {}
    for found in asked.values():
        stories = {**found.stories, **stories}
    defects = _known_defects(asked, plain)
    return {
        anomaly: AnomalyPrediction(Status.PERMITTED, stories[anomaly])
        if anomaly in stories
        else AnomalyPrediction(Status.FORBIDDEN, none, defects.get(anomaly, ()))
        for anomaly in lane.group_anomalies
    }


def _known_defects(
    asked: Mapping[Question, Findings], plain: Prediction
) -> Mapping[GroupAnomaly, tuple[DefectTrace, ...]]:
    """What known defects that tear transactions do to a loop that commits its offsets in them."""
    answer = plain.transactions.get(TransactionAnomaly.TORN_TRANSACTION)
    found: dict[GroupAnomaly, tuple[DefectTrace, ...]] = {}
    for question in asked:
        for trace in answer.known_defects if answer is not None and question.commits == IN_TRANSACTION else ():
            for anomaly, why in stories_of_torn_ends(question).items():
                found[anomaly] = (*found.get(anomaly, ()), DefectTrace(trace.defect, why))
    return found
