"""Examines a run directory by the oracle.

Guarantee: every lost, duplicated or overtaken record has a cause: the first explanation of its partition that covers
it, and a limit that its times do not show to hold does not.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.columns import ALL_TABLES_OF_SHARES, TABLES_OF_GROUPS
from kafka_chaos.contract.events import HighWatermark
from kafka_chaos.contract.lane.families import ANOMALIES_WITH_CAUSE, RETRY_ANOMALIES, AnyAnomaly, Cause, anomaly_named
from kafka_chaos.contract.lane.groups import group_of
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.by_statements import Examined
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.assessment import not_applied
from kafka_chaos.verification.judging.causes import Drop, PartitionCauses, Span, causes_of
from kafka_chaos.verification.judging.result import EXAMPLES, Observation
from tests.verification.oracle.anomalies import find
from tests.verification.oracle.facts import facts_of
from tests.verification.oracle.groups import Group
from tests.verification.oracle.rows import Case, Finding, Identity, Produced, View, case_order, named
from tests.verification.oracle.shares import find_in_share
from tests.verification.oracle.tables import histories_of, parts_of

Causes = Mapping[int | None, PartitionCauses]
"""The explanations of a lane by partition."""


def explained(found: Sequence[Finding], view: View, causes: Causes, *, idempotent: bool) -> list[Finding]:
    """The findings of a lane, each that must have a cause with it. `idempotent`: whether its producer is."""
    cases = {(one.case.producer_id, one.case.seq) for one in found if one.case.anomaly in ANOMALIES_WITH_CAUSE}
    sent = {identity: row for row in view.history.produced if (identity := (row.producer_id, row.seq)) in cases}
    duplicates = {(one.case.producer_id, one.case.seq) for one in found if one.case.anomaly == Anomaly.DUPLICATE}
    renewed = _renewed(view, duplicates) if idempotent else {}
    texts = []
    for one in found:
        case = one.case
        if case.anomaly not in ANOMALIES_WITH_CAUSE or case.producer_id is None or case.seq is None:
            texts.append(one)
            continue
        identity = (case.producer_id, case.seq)
        cause = renewed.get(identity) if case.anomaly == Anomaly.DUPLICATE else None
        cause = cause or _explanation(case, sent[identity], view, causes) or str(Cause.UNOBSERVED)
        if one.cause is not None:
            cause += ("; " if ":" in cause else ": ") + one.cause
        texts.append(one._replace(cause=cause))
    return texts


def _explanation(case: Case, sent: Produced, view: View, causes: Causes) -> str | None:
    known = causes.get(sent.partition if case.partition is None else case.partition)
    if known is None:
        return None
    if case.anomaly in RETRY_ANOMALIES:
        return _first(known.retries, sent.invoke_ns, sent.complete_ns, is_retry=True)
    if case.offset is None:
        return _first(known.sends, sent.invoke_ns, sent.invoke_ns)
    # What a record was truncated or overtaken by came after its acknowledgement; after its sending, if there is none.
    known_ns = sent.complete_ns if view.outcome_of(sent) == "ok" else sent.invoke_ns
    if case.anomaly == Anomaly.INCONSISTENT_OFFSET:
        # Which of both is the older one is not known: anything that dropped the offset may explain them.
        known_ns = 0
    return next((drop.cause for drop in known.drops if _covers(drop, case.offset, known_ns)), None)


def _covers(drop: Drop, offset: int, known_ns: int | None) -> bool:
    in_time = drop.until_ns is None or (known_ns is not None and known_ns <= drop.until_ns)
    return in_time and offset >= drop.first and (drop.end is None or offset < drop.end)


def _first(spans: Iterable[Span], begun_ns: int, ended_ns: int | None, *, is_retry: bool = False) -> str | None:
    """The first span within which it was under way. Only a retry may still have been so at the end of the run."""
    for span in spans:
        begun = span.until_ns is None or begun_ns <= span.until_ns
        in_time = span.within_ns is None or (ended_ns is not None and ended_ns - begun_ns < span.within_ns)
        if begun and in_time and (is_retry if ended_ns is None else ended_ns >= span.since_ns):
            return span.cause
    return None


def _renewed(view: View, duplicates: set[tuple[int | None, int | None]]) -> dict[Identity, str]:
    """The records whose copies carry different producer epochs."""
    epochs: dict[Identity, set[int]] = defaultdict(set)
    for row in view.history.replicas if duplicates else ():
        if (row.producer_id, row.seq) in duplicates and row.producer_epoch is not None and row.producer_epoch >= 0:
            epochs[row.producer_id, row.seq].add(row.producer_epoch)
    return {
        identity: f"{Cause.PRODUCER_EPOCH}: sent in producer epochs {min(found)} and {max(found)}"
        for identity, found in epochs.items()
        if len(found) > 1
    }


Findings = Mapping[str, Sequence[Finding]]
"""By lane."""


def examine(run: RunDirectory) -> tuple[Examined, list[tuple[object, ...]]]:
    """What DuckDB has to find in a run without stray rows, and the rows of findings/, sorted by their text."""
    parts = parts_of(run)
    rows = {name: sum(len(part.columns["lane"]) for part in parts if part.table == name) for name in run.tables}
    views = {lane: View(history) for lane, history in histories_of(run, parts).items()}
    causes: dict[str, dict[int | None, PartitionCauses]] = defaultdict(dict)
    for one in causes_of(run):
        causes[one.lane][one.partition] = one
    facts, findings = {}, {}
    for lane in run.lanes:
        view, groups = views[lane.lane], groups_in(run, lane, views)
        facts[lane.lane] = facts_of(run, lane, view, groups)
        skipped = not_applied(run, lane, facts[lane.lane])
        found = [*find(view, groups), *find_in_share(view, lane), *_high_watermark_regression(run, lane)]
        judged = [one for one in found if anomaly_named(one.case.anomaly) not in skipped]
        explanations = explained(judged, view, causes[lane.lane], idempotent=lane.idempotence)
        findings[lane.lane] = sorted(explanations, key=lambda one: (case_order(one.case), one.cause or ""))
    counted = TABLES_OF_GROUPS if any(lane.groups for lane in run.lanes) else ()
    counted += ALL_TABLES_OF_SHARES if any(lane.share for lane in run.lanes) else ()
    examined = Examined(
        facts=facts,
        observed=_observed(findings),
        write=lambda folder: None,
        of_groups={name: rows[name] for name in counted},
    )
    return examined, [(lane, *one.case, one.cause) for lane, found in findings.items() for one in found]


def groups_in(run: RunDirectory, lane: Lane, views: Mapping[str, View]) -> list[Group]:
    """The groups of a lane: its own, and that of its loop."""
    found = []
    for group, source in lane.groups.items():
        loop = None if lane.group is not None and group == group_of(lane.lane) else lane.loop
        settings = lane.group if loop is None else loop.group
        assert settings is not None
        one = Group(group, views[source], views[lane.lane] if loop else None, dict(run.groups.get(group, {})), source)
        one.is_new = run.is_planned and settings.reset == "earliest" and not views[source].history.is_cleaned
        one.is_in_transaction = loop is not None and loop.offsets == "transaction"
        one.at_end = settings.reset == "latest" and not views[source].history.is_cleaned
        one.at_end &= (settings.commits if loop is None else loop.offsets) == "after"
        one.is_automatic, one.by_epoch = settings.commits == "auto", settings.protocol == "consumer"
        found.append(one)
    return found


def _high_watermark_regression(run: RunDirectory, lane: Lane) -> list[Finding]:
    reports: dict[tuple[int, int], list[HighWatermark]] = defaultdict(list)
    for partition in range(lane.partitions):
        for report in sorted(run.events.reports.get((lane.lane, partition), ()), key=attrgetter("ts_ns")):
            reports[partition, report.leader_epoch].append(report)
    return [
        named(
            Anomaly.HIGH_WATERMARK_REGRESSION.value,
            (partition, after.high_watermark),
            None,
            f"leader epoch {epoch}, before: {before.high_watermark}",
        )
        for (partition, epoch), of_epoch in reports.items()
        for before, after in pairwise(of_epoch)
        if after.high_watermark < before.high_watermark
    ]


def _observed(findings: Findings) -> dict[tuple[str, AnyAnomaly], Observation]:
    """Count, causes and first examples per lane and anomaly."""
    by_anomaly: dict[tuple[str, AnyAnomaly], list[Finding]] = defaultdict(list)
    for lane, found in findings.items():
        for one in found:
            by_anomaly[lane, anomaly_named(one.case.anomaly)].append(one)
    observed = {}
    for (lane, anomaly), found in by_anomaly.items():
        causes: dict[str, int] = defaultdict(int)
        for one in found if anomaly in ANOMALIES_WITH_CAUSE else ():
            causes[(one.cause or "").partition(":")[0]] += one.units
        examples = (one.case._asdict() for one in found[:EXAMPLES])
        shown = tuple({name: value for name, value in example.items() if name != "anomaly"} for example in examples)
        observed[lane, anomaly] = Observation(sum(one.units for one in found), shown, dict(causes))
    return observed
