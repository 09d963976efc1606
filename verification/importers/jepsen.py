"""An operation log of Jepsen's kafka workload, in EDN or JSON, as a run directory.

Guarantee: every micro-operation of a completed or unfinished `send`, `poll` or `txn` becomes rows; a line that is not
understood is an error that names it.

An operation has `type` (invoke, ok, fail, info), `process`, `f`, `value` and `time` (ns). Sends are `[:send k v]` when
invoked and `[:send k [offset v]]` when completed, polls `[:poll {k [[offset v] …]}]`. A key k is one partition of the
lane. A process is a producer: the n-th send of process p is the record (p, n). Key and value are unique, so a read
identifies its record by them.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafka_chaos.contract.errors import EnvironmentFailure
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.verification.importers.writing import Clock, HistoryError, RunWriter, new_run
from kafka_chaos.verification.inputs.file_systems.storage import RunPath

BATCH = 500
TYPES = ("invoke", "ok", "fail", "info")
MOVES = ("subscribe", "assign")
CARRIES_RECORDS = ("send", "poll", "txn")
PHANTOM = (-1, -1)

Operation = Mapping[str, Any]


@dataclass(slots=True)
class _Send:
    """A send on its way: its identity, where it goes, since when."""

    producer_id: int
    seq: int
    key: Any
    value: Any
    invoke_ns: int


@dataclass(slots=True)
class _State:
    path: Path
    lane: str
    writer: RunWriter
    partitions: dict[Any, int] = field(default_factory=dict)
    identities: dict[tuple[Any, Any], tuple[int, int]] = field(default_factory=dict)
    sends: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[_Send]] = field(default_factory=dict)
    assignments: dict[int, int] = field(default_factory=dict)
    reads: list[tuple[str, int, int, Any, Any, int]] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    def partition(self, key: Any) -> int:
        """Whole numbers are partitions; other keys are numbered in order of appearance."""
        if key not in self.partitions:
            free = max(self.partitions.values(), default=-1) + 1
            is_number = isinstance(key, int) and not isinstance(key, bool) and key >= 0
            self.partitions[key] = key if is_number else free
        return self.partitions[key]


def import_jepsen(
    path: Path, out: str | RunPath, *, lane: str = "jepsen", settings: Mapping[str, Any] | None = None
) -> list[Lane]:
    """Write the run directory `out` from the operation log `path` (.edn, .json or .jsonl); one lane.

    `settings`: further keys of `lanes.json`, such as `acks` or `faults`. Raises `HistoryError`.
    """
    with new_run(out) as writer:
        state = _State(path, lane, writer)
        for line, operation in operations(path):
            _take(state, line, operation)
        for unfinished in state.open.values():
            for send in unfinished:
                _write_send(state, send, "info", None, None, "never completed")
        _write_reads(state)
        if not state.partitions:
            raise HistoryError(path, None, "holds no send and no poll, expected operations of the kafka workload")
        numbers = set(state.partitions.values())
        template = Lane.from_json({"lane": lane, **(settings or {})})
        lanes = [replace(template, topic=lane, partitions=max(numbers) + 1)]
        writer.finish(lanes)
    return lanes


# ---------------------------------------------------------------- reading


def operations(path: Path) -> Iterator[tuple[int, Operation]]:
    """The log's operations with their line, keys and keywords as text."""
    text = path.read_text("utf-8", errors="replace")
    first = text.lstrip()[:1]
    is_json = path.suffix in {".json", ".jsonl"}
    if not is_json and importlib.util.find_spec("edn_format") is None:
        raise EnvironmentFailure("histories in EDN need a package: pip install 'kafka-chaos[importers]'")
    read_all = _json_values if is_json else _edn_values
    if first in {"[", "("}:
        whole = _located(path, 1, text, read_all)
        if len(whole) != 1 or not isinstance(whole[0], (list, tuple)):
            raise HistoryError(path, 1, "expected one list of operations, or one operation per line")
        for number, value in enumerate(whole[0], 1):
            yield number, _operation(path, number, value)
        return
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for start in range(0, len(lines), BATCH):
        batch = lines[start : start + BATCH]
        for number, value in _values_of(path, batch, read_all):
            yield number, _operation(path, number, value)


def _values_of(
    path: Path, batch: Sequence[tuple[int, str]], read_all: Callable[[str], list[Any]]
) -> list[tuple[int, Any]]:
    """One value per line: parsed all at once, which is faster, or one by one if that fails."""
    try:
        values = read_all("\n".join(line for _, line in batch))
        if len(values) == len(batch):
            return [(number, value) for (number, _), value in zip(batch, values, strict=True)]
    except Exception:  # noqa: BLE001, S110 - what is wrong, and where, comes out below
        pass
    found = []
    for number, line in batch:
        values = _located(path, number, line, read_all)
        if len(values) != 1:
            raise HistoryError(path, number, f"holds {len(values)} values, expected one operation per line")
        found.append((number, values[0]))
    return found


def _located(path: Path, number: int, text: str, read_all: Callable[[str], list[Any]]) -> list[Any]:
    try:
        return read_all(text)
    except Exception as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise HistoryError(path, number, f"can't be read as an operation ({problem})") from error


def _json_values(text: str) -> list[Any]:
    decoder, values, at = json.JSONDecoder(), [], 0
    while (at := len(text) - len(text[at:].lstrip())) < len(text):
        value, at = decoder.raw_decode(text, at)
        values.append(value)
    return values


def _edn_values(text: str) -> list[Any]:
    import edn_format

    edn_format.add_tag("jepsen.history.Op", lambda operation: operation)
    return [_plain(value) for value in edn_format.loads_all(text)]


def _plain(value: Any) -> Any:
    """EDN's immutable collections and keywords as Python's own."""
    import edn_format

    if isinstance(value, (edn_format.Keyword, edn_format.Symbol)):
        return value.name
    if isinstance(value, Mapping):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, edn_format.ImmutableList)):
        return [_plain(inner) for inner in value]
    return value


def _operation(path: Path, line: int, value: Any) -> Operation:
    if not isinstance(value, Mapping):
        raise HistoryError(path, line, f"expected an operation, a map, not {type(value).__name__}")
    operation = {str(key).lstrip(":"): inner for key, inner in value.items()}
    for name in ("type", "f"):
        if isinstance(operation.get(name), str):
            operation[name] = operation[name].lstrip(":")
    if operation.get("type") not in TYPES:
        raise HistoryError(path, line, f"type is {operation.get('type')!r}, expected {', '.join(TYPES)}")
    return operation


# ----------------------------------------------------------------- taking


def _take(state: _State, line: int, operation: Operation) -> None:
    process, kind = operation.get("process"), operation.get("f")
    if not isinstance(process, int) or kind not in {*CARRIES_RECORDS, *MOVES}:
        return  # the nemesis, and operations that move no records
    stamp_ns = operation.get("time")
    if not isinstance(stamp_ns, int):
        raise HistoryError(state.path, line, f"time is {stamp_ns!r}, expected nanoseconds")
    kind_of = operation["type"]
    if kind_of == "invoke":
        if process in state.open:
            raise HistoryError(state.path, line, f"process {process} invokes before its last operation completed")
        state.open[process] = [] if kind in MOVES else _invoked(state, line, process, operation, stamp_ns)
        return
    sends = state.open.pop(process, None)
    if sends is None:
        raise HistoryError(state.path, line, f"process {process} completes an operation that it never invoked")
    if kind in MOVES or operation.get("rebalance-log"):
        state.assignments[process] = state.assignments.get(process, 0) + 1
    if kind not in MOVES:
        _complete(state, line, operation, sends, stamp_ns)


def _micro_operations(state: _State, line: int, operation: Operation) -> list[list[Any]]:
    value = operation.get("value")
    if not isinstance(value, list) or not all(isinstance(micro, list) and micro for micro in value):
        raise HistoryError(state.path, line, f"value is {value!r}, expected [[:send k v] [:poll] …]")
    for micro in value:
        name = str(micro[0]).lstrip(":")
        if name not in {"send", "poll"} or (name == "send" and len(micro) != 3):
            raise HistoryError(state.path, line, f"{micro!r} is neither [:send k v] nor [:poll …]")
        micro[0] = name
    return value


def _invoked(state: _State, line: int, process: int, operation: Operation, stamp_ns: int) -> list[_Send]:
    sends = []
    for micro in _micro_operations(state, line, operation):
        if micro[0] != "send":
            continue
        _, key, value = micro
        seq = state.sends.get(process, 0)
        state.sends[process] = seq + 1
        state.partition(key)
        if (key, value) in state.identities:
            raise HistoryError(state.path, line, f"value {value!r} is sent to key {key!r} a second time")
        state.identities[key, value] = (process, seq)
        sends.append(_Send(process, seq, key, value, stamp_ns))
    return sends


def _complete(state: _State, line: int, operation: Operation, sends: list[_Send], stamp_ns: int) -> None:
    outcome = operation["type"]
    completed = _micro_operations(state, line, operation)
    answers = [micro for micro in completed if micro[0] == "send"]
    if len(answers) != len(sends) or any(a[1] != s.key for a, s in zip(answers, sends, strict=False)):
        raise HistoryError(state.path, line, "its sends are not those that the process invoked")
    error = operation.get("error")
    for send, (_, _, answer) in zip(sends, answers, strict=True):
        offset = answer[0] if isinstance(answer, list) and len(answer) == 2 else None
        _write_send(state, send, outcome, offset, stamp_ns, None if error is None else str(error))
    for micro in completed:
        if micro[0] == "poll" and len(micro) > 1 and outcome != "fail":
            _take_poll(state, line, int(operation["process"]), micro[1], stamp_ns)


def _take_poll(state: _State, line: int, process: int, polled: Any, stamp_ns: int) -> None:
    if not isinstance(polled, Mapping):
        raise HistoryError(state.path, line, f"{polled!r}, expected {{k [[offset v] …]}}")
    consumer = f"process-{process}/{state.assignments.get(process, 0)}"
    for key, pairs in polled.items():
        # In JSON, all keys are text.
        number = int(key) if isinstance(key, str) and key.isdecimal() else key
        partition = state.partition(number)
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise HistoryError(state.path, line, f"{pair!r}, expected [offset value]")
            offset, value = pair
            if offset is None:
                continue
            poll_ns = state.clock.next(consumer, stamp_ns)
            state.reads.append((consumer, partition, offset, number, value, poll_ns))


def _write_send(state: _State, send: _Send, outcome: str, offset: Any, stamp_ns: int | None, error: str | None) -> None:
    state.writer.produced(
        state.lane,
        send.producer_id,
        send.seq,
        key=str(send.key),
        partition=state.partition(send.key),
        offset=offset if isinstance(offset, int) and outcome != "fail" else None,
        invoke_ns=send.invoke_ns,
        complete_ns=stamp_ns,
        outcome=outcome,
        error=error,
    )


def _write_reads(state: _State) -> None:
    """Reads come last: a record may be read before its send has an answer."""
    for consumer, partition, offset, key, value, poll_ns in state.reads:
        who = state.identities.get((key, value), PHANTOM)
        state.writer.consumed(state.lane, consumer, partition, offset, *who, poll_ns)
