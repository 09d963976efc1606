"""What a lane's evidence cannot show: anomalies that are not searched for, and tables that were not read in full.

Guarantee: names every reason. Pure Python, no Spark.
"""

from collections.abc import Callable, Iterator, Mapping

from kafka_chaos.contract import ledger as contract
from kafka_chaos.contract.anomalies import Anomaly, Trait, with_trait
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import OF_LOOPS
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.groups import evidence as of_groups
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Lack, NotSearched
from kafka_chaos.verification.recovery.evidence import Recovery
from kafka_chaos.verification.shares import evidence as of_shares
from kafka_chaos.verification.tables.facts import LaneFacts
from kafka_chaos.verification.transactions import evidence as of_transactions

FAMILIES: tuple[Callable[[RunDirectory, Lane, LaneFacts], Iterator[Lack]], ...] = (
    of_transactions.lacks,
    of_groups.lacks,
    of_shares.lacks,
)
"""What the evidence lacks about the anomalies that only some lanes can have. `rules.py` has the rules of all lanes."""


def unread(run: RunDirectory, tables: Mapping[str, contract.TableLedger]) -> dict[str, tuple[str, ...]]:
    """By table why it was not read in full, each row once."""
    problems: dict[str, tuple[str, ...]] = {}
    for name, table in run.tables.items():
        why, ledger = table.unread, tables.get(name)
        if ledger is not None and ledger.rows_as_read != ledger.rows_by_footer:
            read, there = ledger.rows_as_read, ledger.rows_by_footer
            why = (*why, f"{name}/ holds {there} rows by its files' footers, but {read} were read")
        if why:
            problems[name] = why
    return problems


def not_applied(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Mapping[AnyAnomaly, str]:
    """The anomalies that are not searched for in this lane, and why. They never count as clean."""
    reasons: dict[AnyAnomaly, str] = {}
    if not run.has_log:
        reasons.update(dict.fromkeys(with_trait(Anomaly, Trait.BY_LOG), "there is no final log (log/)"))
    if not run.has("replicas"):
        reasons[Anomaly.REPLICA_DIVERGENCE] = "there are no replica logs (replicas/)"
    if not reports(run, lane):
        reasons[Anomaly.HIGH_WATERMARK_REGRESSION] = "events.jsonl holds no high_watermark reports of this lane"
    written = [number for number, of_partition in facts.numbered if of_partition.acknowledged]
    if lane.retention_bytes is not None and not all(run.checkpoints.tells_size(lane.lane, one) for one in written):
        reasons[Anomaly.LOST_WRITE] = "checkpoints.json does not say where each log begins, and how large it is"
    if lane.cleanup_policy is not None and not run.has_log:
        reasons[Anomaly.SKIPPED_POLL] = f"cleanup.policy={lane.cleanup_policy} removes records"
    for family in FAMILIES:
        for lack in family(run, lane, facts):
            if isinstance(lack, NotSearched):
                reasons.update(dict.fromkeys(lack.anomalies, lack.text))
    return {**reasons, **Recovery(run, lane, facts).not_judged, **by_configuration(lane)}


def by_configuration(lane: Lane) -> dict[AnyAnomaly, str]:
    """The anomalies that a lane's configuration keeps from being judged, whatever a run of it shows, and why."""
    reasons: dict[AnyAnomaly, str] = {}
    if lane.cleanup_policy is not None:
        removes = f"cleanup.policy={lane.cleanup_policy} removes"
        reasons.update(dict.fromkeys(with_trait(Anomaly, Trait.NOT_AFTER_CLEANUP), f"{removes} records"))
        if lane.retention_bytes is not None and lane.acks != "0":
            # The size of the log that is left says whether retention had to.
            del reasons[Anomaly.LOST_WRITE]
        if lane.transactional is not None:
            reasons.update(dict.fromkeys(of_transactions.BY_THE_LOG, f"{removes} records and markers"))
        if lane.loop is not None:
            reasons.update(dict.fromkeys(OF_LOOPS, f"{removes} outputs"))
    if lane.tiered and "power-loss" in lane.faults:
        lost = "what brokers know of remote segments (__remote_log_metadata) may be lost with the power"
        reasons.update(dict.fromkeys(with_trait(Anomaly, Trait.NOT_AFTER_CLEANUP), lost))
    return {**reasons, **lane.assumed}


def reports(run: RunDirectory, lane: Lane) -> int:
    """How many high watermarks were reported of the lane."""
    return sum(len(reports) for (name, _), reports in run.events.reports.items() if name == lane.lane)
