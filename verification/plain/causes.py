"""Gives every lost or duplicated record its cause: the first explanation of its partition that covers it.

Guarantee: the cause begins with one of the names in `contract.causes`. A limit that a record's times do not show to
hold does not cover it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.causes import CAUSED, Cause
from kafka_chaos.verification.judging.causes import Drop, PartitionCauses, Span
from kafka_chaos.verification.plain.cases import Case, Finding
from kafka_chaos.verification.plain.rows import Identity, Produced, View

Causes = Mapping[int | None, PartitionCauses]
"""The explanations of a lane by partition."""


def explained(found: Sequence[Finding], view: View, causes: Causes, *, idempotent: bool) -> list[Finding]:
    """The findings of a lane, each that must have a cause with it. `idempotent`: whether its producer is."""
    cases = {(one.case.producer_id, one.case.seq) for one in found if one.case.anomaly in CAUSED}
    sent = {identity: row for row in view.history.produced if (identity := (row.producer_id, row.seq)) in cases}
    duplicates = {(one.case.producer_id, one.case.seq) for one in found if one.case.anomaly == Anomaly.DUPLICATE}
    renewed = _renewed(view, duplicates) if idempotent else {}
    texts = []
    for one in found:
        case = one.case
        if case.anomaly not in CAUSED or case.producer_id is None or case.seq is None:
            texts.append(one)
            continue
        identity = (case.producer_id, case.seq)
        cause = renewed.get(identity) if case.anomaly == Anomaly.DUPLICATE else None
        cause = cause or _explanation(case, sent[identity], view, causes) or str(Cause.UNEXPLAINED)
        if one.cause is not None:
            cause += ("; " if ":" in cause else ": ") + one.cause
        texts.append(one._replace(cause=cause))
    return texts


def _explanation(case: Case, sent: Produced, view: View, causes: Causes) -> str | None:
    known = causes.get(sent.partition if case.partition is None else case.partition)
    if known is None:
        return None
    if case.anomaly == Anomaly.DUPLICATE:
        return _first(known.retries, sent.invoke_ns, sent.complete_ns, is_retry=True)
    if case.offset is None:
        return _first(known.sends, sent.invoke_ns, sent.invoke_ns)
    # What a record was truncated or overtaken by came after its acknowledgement; after its sending, if there is none.
    known_ns = sent.complete_ns if view.outcome_of(sent) == "ok" else sent.invoke_ns
    return next((drop.cause for drop in known.drops if _covers(drop, case.offset, known_ns)), None)


def _covers(drop: Drop, offset: int, known_ns: int | None) -> bool:
    in_time = drop.until_ns is None or (known_ns is not None and known_ns <= drop.until_ns)
    return in_time and offset >= drop.first and (drop.end is None or offset < drop.end)


def _first(spans: Iterable[Span], begun_ns: int, ended_ns: int | None, *, is_retry: bool = False) -> str | None:
    """The first span within which it was under way. Only a retry may still have been so at the end of the run."""
    for span in spans:
        begun = span.until_ns is None or begun_ns <= span.until_ns
        if begun and (is_retry if ended_ns is None else ended_ns >= span.since_ns):
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
