"""Assesses what a lane's history can show about its group and its loop. Pure Python, no Spark.

Guarantee: an anomaly of groups is judged only where its evidence is there, and is otherwise named with the reason. No
lane conforms with one that was not judged.
"""

from kafka_chaos.contract.anomalies import Trait, those
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import OF_LOOPS, GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.facts import LaneFacts

BY_THE_LOG = those(GroupAnomaly, Trait.BY_LOG)
"""Of the lane that is read; those of loops also of the output."""


def not_shown(run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[AnyAnomaly, str]:
    """The anomalies that are not searched for in a lane, and why."""
    reasons: dict[AnyAnomaly, str] = {}
    anomalies = lane.group_anomalies
    if not anomalies:
        return reasons
    sources = [run.lane(reads) for reads in groups_of_lane(lane).values()]
    if not run.has_log:
        reasons.update(dict.fromkeys(BY_THE_LOG, "there is no final log (log/)"))
    for one in sources:
        if one.transactional is not None and not run.has("replicas"):
            why = f"replicas/ does not show what lane {one.lane} has committed"
            reasons.update(dict.fromkeys(BY_THE_LOG, why))
    if lane.transactional is not None and (facts.transactions is None or facts.transactions.markers is None):
        reasons.update(dict.fromkeys(OF_LOOPS, "replicas/ does not show the markers that end transactions"))
    for group in groups_of_lane(lane):
        found = next((one for one in facts.groups if one.group == group), None)
        if found is None or not found.assignments:
            reasons.update(dict.fromkeys(anomalies, f"assignments/ holds no assignment of group {group}"))
        elif found.without_generation:
            missing = counted(found.without_generation, "assignment")
            reasons[GroupAnomaly.OWNED_TWICE] = f"assignments/ names no generation of {missing} of group {group}"
    return {anomaly: why for anomaly, why in reasons.items() if anomaly in anomalies}


def proves_nothing(run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[AnyAnomaly, str]:
    """The anomalies whose absence in a lane proves nothing, and why."""
    reasons: dict[AnyAnomaly, str] = {}
    for group in facts.groups:
        if unknown := [at.partition for at in group.partitions if at.acknowledged is not None and at.final is None]:
            reasons[GroupAnomaly.COMMIT_LOST] = (
                f"groups.json does not say what group {group.group} had committed in partition {unknown[0]} in the end"
            )
        if not group.acknowledged:
            without = f"no commit of group {group.group} was acknowledged"
            reasons.update(dict.fromkeys(those(GroupAnomaly, Trait.BY_COMMITS), without))
        if not group.processed:
            reasons.update(dict.fromkeys(GroupAnomaly, f"no member of group {group.group} processed a record"))
    return {anomaly: why for anomaly, why in reasons.items() if anomaly in lane.group_anomalies}


def reset_by_retention(run: RunDirectory, lane: Lane) -> dict[AnyAnomaly, str]:
    """What a group may show, with why, where retention removes what it reads: with the records goes the leader epoch of
    its commit, brokers set the group back (KAFKA-19902), and nothing of the commit was lost."""
    sources = (run.lane(reads) for reads in groups_of_lane(lane).values())
    if not any("delete" in (source.cleanup_policy or "").split(",") for source in sources):
        return {}
    return {GroupAnomaly.COMMIT_LOST: "retention may have removed what was read, and brokers then set a group back"}


def doubts(run: RunDirectory, lane: Lane, facts: LaneFacts) -> list[str]:
    """Why a lane with a group or a loop can't conform, whatever was found."""
    sentences = [
        f"assignments/ and commits/ hold {counted(group.doubled, 'row')} of group {group.group} twice"
        for group in facts.groups
        if group.doubled
    ]
    if facts.without_input:
        sentences.append(f"produced/ names no input of {counted(facts.without_input, 'record')} of a loop")
    return sentences if lane.group_anomalies else []
