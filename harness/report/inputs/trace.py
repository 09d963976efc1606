"""Reads the trace of a run: every request that passed a link, and what became of it.

Guarantee: requests come in the order in which they were sent, with times in seconds from the run's first event. A torn
last line, which a killed run leaves, is left out. Raises `UsageFailure` if there is no trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.run_directory import EVENTS_FILE, TRACE_FILE
from kafka_chaos.faults.links.on_frames import FATES
from kafka_chaos.verification.inputs.documents.reading import json_lines

_NS_PER_S = 1e9
# The keys of a line of the trace whose values are copied:
_COPIED_KEYS = ("sender", "node", "port", "connection", "api", "version", "correlation_id", "client_id")
_MOST_AFTER = 12  # the most requests that are shown after a request that a fault hit
_SEARCHED_BEFORE, _SEARCHED_AFTER = 500, 5_000
"""How many requests before and after a request that a fault hit are searched for its neighbours."""


@dataclass(frozen=True, slots=True)
class TracedFault:
    """What a fault did, from time `at` on, to a request or its response, as `side` says. `rule`: the id of the fault's
    rule for the link. `until`: when the link passed on what it had held; None if it never did, or held nothing."""

    action: str
    side: str
    rule: str
    at: float
    until: float | None

    @property
    def described(self) -> str:
        """`request held 4 s`, `response lost`, and so on."""
        lasted = f" {self.until - self.at:.3g} s" if self.until is not None else ""
        never = "" if self.until is not None or self.action not in ("hold", "delay", "rate") else " to the end"
        return f"{self.side} {FATES.get(self.action, self.action)}{lasted}{never}"


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """One request and its answer. Times are seconds from the run's first event; `answered_at` None: nobody answered.

    `detail`: fields that only some APIs have. `errors`: the answer's error codes. `size`: the request's, in bytes."""

    sent_at: float
    answered_at: float | None
    sender: str
    node: str
    port: int
    connection: int
    api: str
    version: int
    correlation_id: int
    client_id: str
    partitions: tuple[tuple[str, int], ...]
    transactional_ids: tuple[str, ...]
    detail: dict[str, Any]
    errors: tuple[int, ...]
    size: int
    fault: TracedFault | None

    @property
    def about(self) -> str:
        """The request's subject in short, such as `late-0, commit` or `orders-0`."""
        words = list(self.transactional_ids)
        if "committed" in self.detail:
            words.append("commit" if self.detail["committed"] else "abort")
        if "group_id" in self.detail:
            words.append(f"group {self.detail['group_id']}")
        words += [f"{topic}-{partition}" for topic, partition in self.partitions[:3]]
        if len(self.partitions) > 3:
            words.append(f"{len(self.partitions) - 3} more")
        return ", ".join(words)


def read_trace(run_dir: Path) -> list[TracedRequest]:
    """All requests of a run."""
    path = run_dir / TRACE_FILE
    if not path.is_file():
        raise UsageFailure(
            f"{path}: there is no trace: connections pass links where a fault acts on single requests, or with "
            "`links: true` in the experiment's cluster"
        )
    lines = [line for _, line in json_lines(path, torn=True)]
    try:
        start = next(int(event["ts_ns"]) for _, event in json_lines(run_dir / EVENTS_FILE))
    except (StopIteration, ValueError, KeyError):
        start = min((line["ns"] for line in lines), default=0)
    return sorted((_traced(line, start) for line in lines), key=lambda traced: traced.sent_at)


def _traced(line: dict[str, Any], start: int) -> TracedRequest:
    def seconds(nanoseconds: int | None) -> float | None:
        return None if nanoseconds is None else (nanoseconds - start) / _NS_PER_S

    if fault := line.get("fault"):
        as_traced = {key: fault[key] for key in ("action", "side", "rule")}
        times = {"at": (fault["at_ns"] - start) / _NS_PER_S, "until": seconds(fault.get("until_ns"))}
        fault = TracedFault(**as_traced, **times)
    return TracedRequest(
        sent_at=(line["ns"] - start) / _NS_PER_S,
        answered_at=seconds(line.get("answered_ns")),
        **{key: line[key] for key in _COPIED_KEYS},
        partitions=tuple((topic, partition) for topic, partition in line.get("partitions", ())),
        transactional_ids=tuple(line.get("transactional_ids", ())),
        detail=line.get("detail", {}),
        errors=tuple(line.get("errors", ())),
        size=line["bytes"],
        fault=fault,
    )


def hit_requests(requests: Sequence[TracedRequest], most: int) -> list[tuple[str, list[TracedRequest]]]:
    """For each of the first `most` rules that hit a request: a title, and that request amid its neighbours.

    Neighbours of a transactional request share its transactional id and sender. Neighbours of any other request share
    its API, its sender and a partition; if it names no partition, they share its API and connection.
    """
    shown: list[tuple[str, list[TracedRequest]]] = []
    shown_rules = set()
    for number, hit in enumerate(requests):
        if hit.fault is None or hit.fault.rule in shown_rules or len(shown) == most:
            continue
        shown_rules.add(hit.fault.rule)
        before = [other for other in requests[max(0, number - _SEARCHED_BEFORE) : number] if _related(other, hit)][-2:]
        later = [other for other in requests[number + 1 : number + _SEARCHED_AFTER] if _related(other, hit)]
        title = ", ".join(filter(None, (f"{hit.api} of {hit.sender} to {hit.node}", hit.about, hit.fault.described)))
        shown.append((title, [*before, hit, *_neighbours_after(hit, later)]))
    return shown


def _neighbours_after(hit: TracedRequest, later: list[TracedRequest]) -> list[TracedRequest]:
    """The first `later` neighbours; after a held request, also those around the time when it was passed on."""
    until = hit.fault.until if hit.fault is not None else None
    if until is None:
        return later[:_MOST_AFTER]
    meanwhile = [other for other in later if other.sent_at < until]
    since = [other for other in later if other.sent_at >= until]
    few = _MOST_AFTER // 3
    return [*meanwhile[:few], *meanwhile[max(few, len(meanwhile) - few) :], *since[:few]]


def _related(other: TracedRequest, hit: TracedRequest) -> bool:
    """Whether two requests are neighbours, as `hit_requests` says."""
    if hit.transactional_ids:
        return bool(set(other.transactional_ids) & set(hit.transactional_ids)) and other.sender == hit.sender
    if other.api != hit.api:
        return False
    if hit.partitions:
        return bool(set(other.partitions) & set(hit.partitions)) and other.sender == hit.sender
    return other.connection == hit.connection
