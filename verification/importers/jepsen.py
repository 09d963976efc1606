"""An operation log of Jepsen's kafka workload, in EDN or JSON, as a run directory.

Guarantee: every micro-operation of a completed or unfinished `send`, `poll` or `txn` becomes rows; a line that is not
understood is an error that names it.

An operation has `type` (invoke, ok, fail, info), `process`, `f`, `value` and `time` (ns). Sends are `[:send k v]` when
invoked and `[:send k [offset v]]` when completed, polls `[:poll {k [[offset v] …]}]`. A key k is one partition of the
lane. A process is a producer: the n-th send of process p is the record (p, n). Key and value are unique, so a read
identifies its record by them.

With transactions, each operation is one: committed (ok), aborted (fail) or in doubt (info). What one reads of whose
transaction is not committed, its process reads again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import ABORTED, COMMITTED, IN_DOUBT, READ_COMMITTED, Transactional
from kafka_chaos.verification.importers.operations import Operation, operations
from kafka_chaos.verification.importers.writing import Clock, HistoryError, RunWriter, new_run
from kafka_chaos.verification.inputs.file_systems.storage import RunPath

MOVES = ("subscribe", "assign")
CARRIES_RECORDS = ("send", "poll", "txn")
PHANTOM = (-1, -1)
OUTCOMES = {"ok": COMMITTED, "fail": ABORTED, "info": IN_DOUBT}
"""What becomes of the transaction that an operation is."""

Value = tuple[Any, Any]
"""A key, and what was sent to it."""


@dataclass(slots=True)
class _Send:
    """A record: its identity, where it goes, and where its send ended up."""

    producer_id: int
    seq: int
    key: Any
    value: Any
    offset: Any = None


@dataclass(slots=True)
class _Operation:
    """An operation that sends: its records, and how it ended. `number`: counts those of its process."""

    process: int
    number: int
    invoke_ns: int
    sends: list[_Send]
    complete_ns: int | None = None
    type: str = "info"
    error: str | None = "never completed"


@dataclass(slots=True)
class _Reader:
    """What a process reads: how often its assignment changed, and the last (offset, value) that it read of each key.

    `branches`: how many of its operations read what it reads again. `continued`: the names under which it goes on from
    the last read of a key.
    """

    assignment: int = 0
    branches: int = 0
    last: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    continued: set[tuple[str, Any]] = field(default_factory=set)


@dataclass(slots=True)
class _State:
    path: Path
    lane: str
    writer: RunWriter
    transactional: bool
    isolation: str
    partitions: dict[Any, int] = field(default_factory=dict)
    identities: dict[Value, tuple[int, int]] = field(default_factory=dict)
    sends: dict[int, int] = field(default_factory=dict)
    sending: dict[int, list[_Operation]] = field(default_factory=dict)
    open: dict[int, _Operation] = field(default_factory=dict)
    readers: dict[int, _Reader] = field(default_factory=dict)
    reads: list[tuple[str, int, Any, Any, int]] = field(default_factory=list)
    told: set[Value] = field(default_factory=set)
    clock: Clock = field(default_factory=Clock)

    def partition(self, key: Any) -> int:
        """Whole numbers are partitions; other keys are numbered in order of appearance."""
        if key not in self.partitions:
            free = max(self.partitions.values(), default=-1) + 1
            is_number = isinstance(key, int) and not isinstance(key, bool) and key >= 0
            self.partitions[key] = key if is_number else free
        return self.partitions[key]

    def reader(self, process: int) -> _Reader:
        return self.readers.setdefault(process, _Reader())


def import_jepsen(
    path: Path,
    out: str | RunPath,
    *,
    lane: str = "jepsen",
    transactional: bool | None = None,
    isolation: str = READ_COMMITTED,
    settings: Mapping[str, Any] | None = None,
) -> list[Lane]:
    """Write the run directory `out` from the operation log `path` (.edn, .json or .jsonl); one lane.

    `transactional`: whether operations were transactions; by default, if one of them is a `txn`. `isolation`: that of
    the consumers. `settings`: further keys of `lanes.json`, such as `acks` or `faults`. Raises `HistoryError`.
    """
    known = list(operations(path))
    if transactional is None:
        transactional = any(operation.get("f") == "txn" for _, operation in known)
    with new_run(out) as writer:
        state = _State(path, lane, writer, transactional, isolation)
        for line, operation in known:
            _take(state, line, operation)
        if not state.partitions:
            raise HistoryError(path, None, "holds no send and no poll, expected operations of the kafka workload")
        for of_process in state.sending.values():
            for sent in of_process:
                _write_operation(state, sent)
        _write_reads(state)
        lanes = [_lane(state, settings or {})]
        writer.finish(lanes)
    return lanes


def _lane(state: _State, settings: Mapping[str, Any]) -> Lane:
    entry = {"lane": state.lane, **settings}
    if state.transactional:
        size = max((len(one.sends) for of_process in state.sending.values() for one in of_process), default=1)
        producers = Transactional(producers=max(1, len(state.sending)), size=max(1, size))
        entry |= {"idempotence": True, "transactional": producers.to_json()}
    return replace(Lane.from_json(entry), topic=state.lane, partitions=max(state.partitions.values()) + 1)


# ----------------------------------------------------------------- taking


def _take(state: _State, line: int, operation: Operation) -> None:
    process, kind = operation.get("process"), operation.get("f")
    if not isinstance(process, int) or kind not in {*CARRIES_RECORDS, *MOVES}:
        return  # the nemesis, and operations that move no records
    stamp_ns = operation.get("time")
    if not isinstance(stamp_ns, int):
        raise HistoryError(state.path, line, f"time is {stamp_ns!r}, expected nanoseconds")
    if operation["type"] == "invoke":
        if process in state.open:
            raise HistoryError(state.path, line, f"process {process} invokes before its last operation completed")
        sends = [] if kind in MOVES else _invoked(state, line, process, operation)
        state.open[process] = _Operation(process, len(state.sending.get(process, ())), stamp_ns, sends)
        if sends:
            state.sending.setdefault(process, []).append(state.open[process])
        return
    if process not in state.open:
        raise HistoryError(state.path, line, f"process {process} completes an operation that it never invoked")
    invoked = state.open.pop(process)
    if kind in MOVES:
        _move(state.reader(process), operation)
        return
    if operation.get("rebalance-log"):
        _reassigned(state.reader(process))
    _complete(state, line, operation, invoked, stamp_ns)


def _move(reader: _Reader, operation: Operation) -> None:
    """An assignment keeps the position of each key that is in it again; a subscription may move anywhere."""
    if operation["type"] == "fail":
        return
    kept = operation.get("value") if operation["f"] == "assign" and not operation.get("seek-to-beginning?") else None
    keys = [_key(key) for key in kept] if isinstance(kept, list) else []
    last = {key: place for key, place in reader.last.items() if key in keys}
    _reassigned(reader)
    reader.last = last


def _reassigned(reader: _Reader) -> None:
    reader.assignment += 1
    reader.last = {}


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


def _invoked(state: _State, line: int, process: int, operation: Operation) -> list[_Send]:
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
        sends.append(_Send(process, seq, key, value))
    return sends


def _complete(state: _State, line: int, operation: Operation, invoked: _Operation, stamp_ns: int) -> None:
    completed = _micro_operations(state, line, operation)
    answers = [micro for micro in completed if micro[0] == "send"]
    if len(answers) != len(invoked.sends) or any(a[1] != s.key for a, s in zip(answers, invoked.sends, strict=False)):
        raise HistoryError(state.path, line, "its sends are not those that the process invoked")
    error = operation.get("error")
    invoked.type, invoked.complete_ns = operation["type"], stamp_ns
    invoked.error = None if error is None else str(error)
    for send, (_, _, answer) in zip(invoked.sends, answers, strict=True):
        send.offset = answer[0] if isinstance(answer, list) and len(answer) == 2 else None
    polls = [micro[1] for micro in completed if micro[0] == "poll" and len(micro) > 1]
    if polls and (state.transactional or operation["type"] != "fail"):
        _take_polls(state, line, operation, polls, stamp_ns)


def _take_polls(state: _State, line: int, operation: Operation, polls: list[Any], stamp_ns: int) -> None:
    process = int(operation["process"])
    reader = state.reader(process)
    consumer = f"process-{process}/{reader.assignment}"
    goes_on = not state.transactional or operation["type"] == "ok"
    if not goes_on:
        reader.branches += 1
        consumer = f"{consumer}-{reader.branches}"
    last = dict(reader.last)
    for polled in polls:
        for key, offset, value in _polled(state, line, polled):
            if (consumer, key) not in reader.continued:
                reader.continued.add((consumer, key))
                _continue(state, consumer, key, last.get(key), stamp_ns)
            last[key] = (offset, value)
            state.reads.append((consumer, offset, key, value, state.clock.next(consumer, stamp_ns)))
            if operation["type"] == "ok":
                state.told.add((key, value))
    if goes_on:
        reader.last = last


def _continue(state: _State, consumer: str, key: Any, before: tuple[int, Any] | None, stamp_ns: int) -> None:
    """Under a new name, a consumer that goes on where it was begins with what it read last."""
    if before is not None:
        offset, value = before
        state.reads.append((consumer, offset, key, value, state.clock.next(consumer, stamp_ns)))


def _polled(state: _State, line: int, polled: Any) -> list[tuple[Any, int, Any]]:
    """The (key, offset, value) of a poll."""
    if not isinstance(polled, Mapping):
        raise HistoryError(state.path, line, f"{polled!r}, expected {{k [[offset v] …]}}")
    found = []
    for name, pairs in polled.items():
        key = _key(name)
        state.partition(key)
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise HistoryError(state.path, line, f"{pair!r}, expected [offset value]")
            if pair[0] is not None:
                found.append((key, pair[0], pair[1]))
    return found


def _key(name: Any) -> Any:
    """In JSON, the keys of maps are text."""
    return int(name) if isinstance(name, str) and name.isdecimal() else name


# ---------------------------------------------------------------- writing


def _write_operation(state: _State, sent: _Operation) -> None:
    """The records of an operation. What a committed reader was told of one proves that all of them are committed."""
    is_proven = state.transactional and sent.type == "info" and state.isolation == READ_COMMITTED
    is_proven = is_proven and any((send.key, send.value) in state.told for send in sent.sends)
    kind = "ok" if is_proven else sent.type
    for send in sent.sends:
        state.writer.produced(
            state.lane,
            send.producer_id,
            send.seq,
            key=str(send.key),
            partition=state.partition(send.key),
            offset=send.offset if isinstance(send.offset, int) and kind != "fail" else None,
            invoke_ns=sent.invoke_ns,
            complete_ns=sent.complete_ns,
            outcome=kind,
            error=sent.error,
            transaction=sent.number if state.transactional else None,
        )
    if state.transactional:
        state.writer.transaction(
            state.lane,
            sent.process,
            sent.number,
            transactional_id=_name(sent.process),
            begin_ns=sent.invoke_ns,
            end_ns=sent.complete_ns,
            outcome=OUTCOMES[kind],
            error=sent.error,
        )


def _write_reads(state: _State) -> None:
    """Reads come last: a record may be read before its send has an answer."""
    assigned: set[tuple[str, int]] = set()
    for consumer, offset, key, value, poll_ns in state.reads:
        who, partition = state.identities.get((key, value), PHANTOM), state.partition(key)
        state.writer.consumed(state.lane, consumer, partition, offset, *who, poll_ns)
        if state.transactional and (consumer, partition) not in assigned:
            assigned.add((consumer, partition))
            member = consumer.partition("/")[0]
            state.writer.assignment(
                state.lane, consumer, partition, member=member, isolation=state.isolation, start_ns=poll_ns
            )


def _name(process: int) -> str:
    return f"process-{process}"
