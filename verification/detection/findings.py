"""Finds, explains and counts all anomalies of a run: takes the tables, returns CASES and observations.

Guarantee: an anomaly that is not judged in a lane has no case there. The counts are sums over exactly the rows that are
written. Every lost, moved, duplicated or overtaken record has a cause, be it `unobserved`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.families import CAUSED, AnyAnomaly, anomaly_named
from kafka_chaos.verification.detection import anomalies, causes
from kafka_chaos.verification.groups.findings import cases_of_groups
from kafka_chaos.verification.groups.survey import Groups
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.causes import causes_of
from kafka_chaos.verification.judging.known_defects import is_watched
from kafka_chaos.verification.judging.replicas import limit_of
from kafka_chaos.verification.judging.result import EXAMPLES, MOST_RECORDS, Identity, Observation
from kafka_chaos.verification.schemas import IDENTITY, schema
from kafka_chaos.verification.tables import history
from kafka_chaos.verification.tables.counts import suspects
from kafka_chaos.verification.tables.evidence import is_small
from kafka_chaos.verification.tables.facts import LaneFacts
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, Survey, asked, keep
from kafka_chaos.verification.transactions.dependencies import Cycles
from kafka_chaos.verification.transactions.findings import cases_of_transactions, due_to, unseen_in
from kafka_chaos.verification.transactions.survey import Transactions, with_transactions

_EXAMPLE = ("partition", "offset", "producer_id", "seq")

_LIMITS = schema("lane string, partition int32, limit int64")


@dataclass(frozen=True, slots=True)
class Cases:
    """The CASES of a run, kept so that counting and writing do not compute them twice; None if there are none.

    `observed`: count, first examples and causes per lane and anomaly; anomalies without a case are absent. `facts`: of
    transactional lanes, with what the search added.
    """

    rows: DataFrame | None
    observed: Mapping[tuple[str, AnyAnomaly], Observation] = field(default_factory=dict)
    facts: Mapping[str, LaneFacts] = field(default_factory=dict)


def find(
    spark: SparkSession,
    run: RunDirectory,
    survey: Survey,
    skipped: Mapping[str, Mapping[AnyAnomaly, str]],
    transactions: Transactions | None = None,
    groups: Groups | None = None,
    cycles: Callable[[], Cycles] | None = None,
) -> Cases:
    """The run's CASES.

    `skipped`: by lane the anomalies that are not judged there. `cycles`: of `transactions`, if there are any.
    """
    tables = _tables_of_cases(spark, run, survey, skipped, transactions)
    uncaused = [table for anomaly, table in tables.items() if anomaly not in CAUSED]
    caused = [table for anomaly, table in tables.items() if anomaly in CAUSED]
    parts = [*uncaused, *_explained(spark, run, survey, caused)]
    facts: dict[str, LaneFacts] = {}
    if transactions is not None:
        assert cycles is not None
        of_transactions, found = cases_of_transactions(spark, run, transactions, cycles)
        parts.append(_judged(of_transactions, skipped))
        facts = with_transactions({lane: survey.facts.get(lane, LaneFacts()) for lane in found.lanes}, found)
    if groups is not None:
        known = survey.frames.produced.select(*IDENTITY)
        of_groups = cases_of_groups(groups, known, survey.scope.sums, small=is_small(run))
        parts.append(_judged(of_groups, skipped))
    if not parts:
        return Cases(None)
    small = is_small(run)
    cases = keep(history.gathered(reduce(DataFrame.unionByName, parts), small=small), small=small)
    return Cases(cases, _observed(cases, {lane.lane for lane in run.lanes if is_watched(run, lane)}), facts)


def _judged(cases: DataFrame, skipped: Mapping[str, Mapping[AnyAnomaly, str]]) -> DataFrame:
    """CASES without those of anomalies that are not judged in their lane."""
    exempt = [(lane, anomaly) for lane, reasons in skipped.items() for anomaly in reasons]
    exempt = [(lane, anomaly) for lane, anomaly in exempt if not isinstance(anomaly, Anomaly)]
    judged = (~((F.col("lane") == lane) & (F.col("anomaly") == anomaly.value)) for lane, anomaly in exempt)
    return reduce(DataFrame.where, judged, cases)


def _explained(spark: SparkSession, run: RunDirectory, survey: Survey, caused: Sequence[DataFrame]) -> list[DataFrame]:
    """The cases that must have a cause, with their causes, as one table; no table if there are none."""
    if not caused:
        return []
    small, few, explanations = is_small(run), True, causes_of(run)
    replicas = survey.frames.replicas
    doubled = [] if replicas is None else [lane.lane for lane in run.lanes if lane.idempotence]
    cases = history.gathered(reduce(DataFrame.unionByName, caused), small=small)
    if explanations or doubled:
        cases = keep(cases, small=small)
        if not small:
            rows = cases.groupBy("lane", "anomaly").count().collect()
            few = sum(row["count"] for row in rows) <= MOST_BROADCAST
            doubled = [row.lane for row in rows if row.anomaly == Anomaly.DUPLICATE and row.lane in doubled]
    replicas = replicas.where(F.col("lane").isin(doubled)) if replicas is not None and doubled else None
    produced = survey.frames.produced
    return [causes.explained(spark, cases, produced, explanations, replicas=replicas, few=few, small=small)]


def _observed(cases: DataFrame, met: Collection[str]) -> dict[tuple[str, AnyAnomaly], Observation]:
    """Count, causes and first examples per lane and anomaly, in one job; in the lanes `met`, the records of each case,
    too."""
    caused = ", ".join(f"'{anomaly}'" for anomaly in CAUSED)
    named = f"IF(anomaly IN ({caused}), substring_index(cause, ':', 1), NULL) AS named"
    counted = cases.selectExpr("lane", "anomaly", named, "units").groupBy("lane", "anomaly", "named")
    order = f"OVER (PARTITION BY lane, anomaly ORDER BY {', '.join(_EXAMPLE)})"
    ranked = cases.selectExpr("lane", "anomaly", *_EXAMPLE, f"row_number() {order} AS rank")
    answers = asked(counts=counted.agg(F.expr("sum(units) AS n")), examples=ranked.where(f"rank <= {EXAMPLES}"))
    records: dict[tuple[str, AnyAnomaly], list[Identity]] = {}
    found = cases.where(F.col("lane").isin(list(met))).select("lane", "anomaly", "producer_id", "seq") if met else None
    for lane, anomaly, *record in [] if found is None else found.limit(MOST_RECORDS).collect():
        records.setdefault((lane, anomaly_named(anomaly)), []).append((record[0], record[1]))
    causes: dict[tuple[str, AnyAnomaly], dict[str | None, int]] = {}
    for row in answers["counts"]:
        causes.setdefault((row["lane"], anomaly_named(row["anomaly"])), {})[row.get("named")] = row["n"]
    examples: dict[tuple[str, AnyAnomaly], list[dict[str, int | None]]] = {key: [] for key in causes}
    for row in sorted(answers["examples"], key=lambda row: row["rank"]):
        examples[row["lane"], anomaly_named(row["anomaly"])].append({name: row.get(name) for name in _EXAMPLE})
    return {
        key: Observation(
            sum(counts.values()),
            tuple(examples[key]),
            {cause: count for cause, count in counts.items() if cause is not None},
            tuple(records.get(key, ())),
        )
        for key, counts in causes.items()
    }


def _tables_of_cases(
    spark: SparkSession,
    run: RunDirectory,
    survey: Survey,
    skipped: Mapping[str, Mapping[AnyAnomaly, str]],
    transactions: Transactions | None,
) -> dict[Anomaly, DataFrame]:
    """By anomaly, a table of its CASES in the lanes where it is judged; none if it has no case."""
    tables = _tables(spark, run, survey, transactions)
    found = {}
    for anomaly, finder in anomalies.FINDERS.items():
        exempt = [lane for lane, reasons in skipped.items() if anomaly in reasons]
        is_absent = finder.problems and survey.scope.absent.issuperset(finder.problems)
        if is_absent or len(exempt) == len(run.lanes):
            continue
        given = [tables[name]() for name in finder.tables]
        if given[0] is None:
            continue
        cases = finder.cases(*given)
        if anomaly == Anomaly.UNSEEN and transactions is not None and run.has_log:
            cases = _unseen(spark, survey, transactions, cases)
        found[anomaly] = cases.where(~F.col("lane").isin(exempt)) if exempt else cases
    return found


def _tables(
    spark: SparkSession, run: RunDirectory, survey: Survey, transactions: Transactions | None
) -> dict[str, Callable[[], Any]]:
    """The tables that `anomalies.FINDERS` search: of the scope, the log or the brokers; None without anything to find.

    `missed`: `_missed`. `replicas`: below the `limits`, rows of blocks in which brokers may differ.
    """
    scope, frames = survey.scope, survey.frames
    names = ("records", "seen", "shown", "stored", "ascending", "polls", "runs")

    @cache
    def limits() -> DataFrame:
        return history.local_frame(spark, _LIMITS, _replica_limits(run, survey))

    def replicas() -> DataFrame | None:
        if frames.replicas is None or frames.replica_sums is None or is_small(run):
            return frames.replicas
        return suspects(frames.replicas, frames.replica_sums, limits())

    return {
        **{name: partial(getattr, scope, name) for name in names},
        "final_log": lambda: run.has_log,
        "missed": lambda: _missed(spark, run, survey, transactions),
        "replicas": replicas,
        "limits": limits,
        "reports": lambda: frames.reports,
    }


def _missed(
    spark: SparkSession, run: RunDirectory, survey: Survey, transactions: Transactions | None
) -> DataFrame | None:
    """The records that consumers stepped over although they were due to them (`stepped_over`)."""
    scope = survey.scope
    if scope.polls is None or scope.consumed is None or scope.held is None:
        return None
    missed = anomalies.stepped_over(scope.polls, scope.consumed, scope.held, doubtful=scope.doubtful)
    small = is_small(run)
    if transactions is not None:
        # Used several times: to choose what is known to be committed, and to be compared with that.
        missed = due_to(spark, transactions, keep(missed, small=small), has_log=run.has_log)
    if not run.has_log:
        return missed
    # Used several times: to choose the reads of its readers, and to be compared with them and with what was sent.
    missed = keep(missed, small=small)
    places = 0 if small else missed.count()
    if not small and not places:
        return missed
    few = places <= MOST_BROADCAST
    return anomalies.there_when_passed(missed, scope.polls, survey.frames.produced, few=few, small=small)


def _unseen(spark: SparkSession, survey: Survey, transactions: Transactions, found: DataFrame) -> DataFrame:
    """Of records that nobody read, in transactional lanes those that somebody was to be given."""
    assert survey.scope.seen is not None
    other = F.col("lane").isin(list(transactions.lanes))
    due = unseen_in(spark, transactions, survey.facts, found.where(other), survey.scope.seen)
    return found.where(~other).unionByName(due)


def _replica_limits(run: RunDirectory, survey: Survey) -> list[tuple[str, int, int]]:
    marks = run.checkpoints.high_watermarks
    limits = (
        (lane, partition, limit_of(replicas, marks.get((lane, partition), {})))
        for lane, facts in survey.facts.items()
        for partition, replicas in facts.replicas.items()
    )
    return [(lane, partition, limit) for lane, partition, limit in limits if limit is not None]
