"""Assesses what a lane's history can show about its group and its loop. Pure Python, no Spark.

Guarantee: an anomaly of groups is judged only where its evidence is there, and is otherwise named with the reason. No
lane conforms with one that was not judged.
"""

from collections.abc import Iterator

from kafka_chaos.contract.anomalies import Trait, with_trait
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import OF_LOOPS, GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Doubt, Gap, Lack, NotSearched
from kafka_chaos.verification.tables.facts import LaneFacts


def lacks(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Lack]:
    """What the evidence about a lane's group and loop lacks."""
    anomalies = lane.group_anomalies
    if not anomalies:
        return
    # Of the lane that is read; the anomalies of loops also of the output.
    by_log = with_trait(anomalies, Trait.BY_LOG)
    if not run.has_log:
        yield NotSearched("there is no final log (log/)", by_log)
    for source in (run.lane(reads) for reads in groups_of_lane(lane).values()):
        if source.transactional is not None and not run.has("replicas"):
            yield NotSearched(f"replicas/ does not show what lane {source.lane} has committed", by_log)
    if lane.loop and lane.transactional and (facts.transactions is None or facts.transactions.markers is None):
        yield NotSearched("replicas/ does not show the markers that end transactions", OF_LOOPS)
    ledgers = {ledger.group: ledger for ledger in facts.groups}
    for group in groups_of_lane(lane):
        ledger = ledgers.get(group)
        if ledger is None or not ledger.assignments:
            yield NotSearched(f"assignments/ holds no assignment of group {group}", anomalies)
        elif ledger.without_generation:
            missing = counted(ledger.without_generation, "assignment")
            why = f"assignments/ names no generation of {missing} of group {group}"
            yield NotSearched(why, (GroupAnomaly.OWNED_TWICE,))
    for group, ledger in ledgers.items():
        if unknown := [at.partition for at in ledger.partitions if at.acknowledged is not None and at.final is None]:
            why = f"groups.json does not say what group {group} had committed in partition {unknown[0]} in the end"
            yield Gap(why, (GroupAnomaly.COMMIT_LOST,))
        if not ledger.acknowledged:
            yield Gap(f"no commit of group {group} was acknowledged", with_trait(anomalies, Trait.BY_COMMITS))
        if not ledger.processed:
            yield Gap(f"no member of group {group} processed a record", anomalies)
        if ledger.doubled:
            rows = counted(ledger.doubled, "row")
            yield Doubt(f"assignments/ and commits/ hold {rows} of group {group} twice")
    if facts.without_input:
        yield Doubt(f"produced/ names no input of {counted(facts.without_input, 'record')} of a loop")


def reset_by_retention(run: RunDirectory, lane: Lane) -> dict[AnyAnomaly, str]:
    """What a group may show, with why, where retention removes what it reads: with the records goes the leader epoch of
    its commit, brokers set the group back (KAFKA-19902), and nothing of the commit was lost."""
    sources = (run.lane(reads) for reads in groups_of_lane(lane).values())
    if not any("delete" in (source.cleanup_policy or "").split(",") for source in sources):
        return {}
    return {GroupAnomaly.COMMIT_LOST: "retention may have removed what was read, and brokers then set a group back"}
