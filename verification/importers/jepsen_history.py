"""What the operations of Jepsen's kafka workload say, line by line: who sent which record, and who read it where.

`verification/importers/jepsen.py` describes the operations, and writes what is found here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.verification.importers.operations import Operation
from kafka_chaos.verification.importers.writing import Clock, HistoryError

MOVES = ("subscribe", "assign")
CARRIES_RECORDS = ("send", "poll", "txn")

Value = tuple[Any, Any]
"""A key, and what was sent to it."""


@dataclass(slots=True)
class Send:
    """A record: its identity, where it goes, and where its send ended up."""

    producer_id: int
    seq: int
    key: Any
    value: Any
    offset: Any = None


@dataclass(slots=True)
class Sending:
    """An operation that sends: its records, and how it ended. `number`: counts those of its process."""

    process: int
    number: int
    invoke_ns: int
    sends: list[Send]
    complete_ns: int | None = None
    type: str = "info"
    error: str | None = "never completed"


@dataclass(slots=True)
class Reader:
    """What a process reads: how often its assignment changed, and the last (offset, value) that it read of each key.

    `branches`: how many of its operations read what it reads again. `continued`: the names under which it goes on from
    the last read of a key.
    """

    assignment: int = 0
    branches: int = 0
    last: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    continued: set[tuple[str, Any]] = field(default_factory=set)


@dataclass(slots=True)
class History:
    """What the operations of the log `path` have said so far.

    `transactional`: whether each of them is a transaction. `reads` are (consumer, offset, key, value, poll time), and
    `seen` the values that operations have read that ended with ok.
    """

    path: Path
    transactional: bool
    partitions: dict[Any, int] = field(default_factory=dict)
    identities: dict[Value, tuple[int, int]] = field(default_factory=dict)
    sends: dict[int, int] = field(default_factory=dict)
    sending: dict[int, list[Sending]] = field(default_factory=dict)
    open: dict[int, Sending] = field(default_factory=dict)
    readers: dict[int, Reader] = field(default_factory=dict)
    reads: list[tuple[str, int, Any, Any, int]] = field(default_factory=list)
    seen: set[Value] = field(default_factory=set)
    clock: Clock = field(default_factory=Clock)

    def partition(self, key: Any) -> int:
        """Whole numbers are partitions; other keys are numbered in order of appearance."""
        if key not in self.partitions:
            free = max(self.partitions.values(), default=-1) + 1
            is_number = isinstance(key, int) and not isinstance(key, bool) and key >= 0
            self.partitions[key] = key if is_number else free
        return self.partitions[key]

    def reader(self, process: int) -> Reader:
        """What this process reads."""
        return self.readers.setdefault(process, Reader())


def take(history: History, line: int, operation: Operation) -> None:
    """Add an operation, the next of the log; raises `HistoryError` if it contradicts those before."""
    process, kind = operation.get("process"), operation.get("f")
    if not isinstance(process, int) or kind not in {*CARRIES_RECORDS, *MOVES}:
        return  # the nemesis, and operations that move no records
    stamp_ns = operation.get("time")
    if not isinstance(stamp_ns, int):
        raise HistoryError(history.path, line, f"time is {stamp_ns!r}, expected nanoseconds")
    if operation["type"] == "invoke":
        if process in history.open:
            raise HistoryError(history.path, line, f"process {process} invokes before its last operation completed")
        sends = [] if kind in MOVES else _invoked(history, line, process, operation)
        history.open[process] = Sending(process, len(history.sending.get(process, ())), stamp_ns, sends)
        if sends:
            history.sending.setdefault(process, []).append(history.open[process])
        return
    if process not in history.open:
        raise HistoryError(history.path, line, f"process {process} completes an operation that it never invoked")
    invoked = history.open.pop(process)
    if kind in MOVES:
        _move(history.reader(process), operation)
        return
    if operation.get("rebalance-log"):
        _reassigned(history.reader(process))
    _complete(history, line, operation, invoked, stamp_ns)


def _move(reader: Reader, operation: Operation) -> None:
    """An assignment keeps the position of each key that is in it again; a subscription may move anywhere."""
    if operation["type"] == "fail":
        return
    kept = operation.get("value") if operation["f"] == "assign" and not operation.get("seek-to-beginning?") else None
    keys = [_key(key) for key in kept] if isinstance(kept, list) else []
    last = {key: place for key, place in reader.last.items() if key in keys}
    _reassigned(reader)
    reader.last = last


def _reassigned(reader: Reader) -> None:
    reader.assignment += 1
    reader.last = {}


def _micro_operations(history: History, line: int, operation: Operation) -> list[list[Any]]:
    value = operation.get("value")
    if not isinstance(value, list) or not all(isinstance(micro, list) and micro for micro in value):
        raise HistoryError(history.path, line, f"value is {value!r}, expected [[:send k v] [:poll] …]")
    for micro in value:
        name = str(micro[0]).lstrip(":")
        if name not in {"send", "poll"} or (name == "send" and len(micro) != 3):
            raise HistoryError(history.path, line, f"{micro!r} is neither [:send k v] nor [:poll …]")
        micro[0] = name
    return value


def _invoked(history: History, line: int, process: int, operation: Operation) -> list[Send]:
    sends = []
    for micro in _micro_operations(history, line, operation):
        if micro[0] != "send":
            continue
        _, key, value = micro
        seq = history.sends.get(process, 0)
        history.sends[process] = seq + 1
        history.partition(key)
        if (key, value) in history.identities:
            raise HistoryError(history.path, line, f"value {value!r} is sent to key {key!r} a second time")
        history.identities[key, value] = (process, seq)
        sends.append(Send(process, seq, key, value))
    return sends


def _complete(history: History, line: int, operation: Operation, invoked: Sending, stamp_ns: int) -> None:
    completed = _micro_operations(history, line, operation)
    answers = [micro for micro in completed if micro[0] == "send"]
    if len(answers) != len(invoked.sends) or any(a[1] != s.key for a, s in zip(answers, invoked.sends, strict=False)):
        raise HistoryError(history.path, line, "its sends are not those that the process invoked")
    error = operation.get("error")
    invoked.type, invoked.complete_ns = operation["type"], stamp_ns
    invoked.error = None if error is None else str(error)
    for send, (_, _, answer) in zip(invoked.sends, answers, strict=True):
        send.offset = answer[0] if isinstance(answer, list) and len(answer) == 2 else None
    polls = [micro[1] for micro in completed if micro[0] == "poll" and len(micro) > 1]
    if polls and (history.transactional or operation["type"] != "fail"):
        _take_polls(history, line, operation, polls, stamp_ns)


def _take_polls(history: History, line: int, operation: Operation, polls: list[Any], stamp_ns: int) -> None:
    process = int(operation["process"])
    reader = history.reader(process)
    consumer = f"process-{process}/{reader.assignment}"
    goes_on = not history.transactional or operation["type"] == "ok"
    if not goes_on:
        reader.branches += 1
        consumer = f"{consumer}-{reader.branches}"
    last = dict(reader.last)
    for polled in polls:
        for key, offset, value in _polled(history, line, polled):
            if (consumer, key) not in reader.continued:
                reader.continued.add((consumer, key))
                _continue(history, consumer, key, last.get(key), stamp_ns)
            last[key] = (offset, value)
            history.reads.append((consumer, offset, key, value, history.clock.next(consumer, stamp_ns)))
            if operation["type"] == "ok":
                history.seen.add((key, value))
    if goes_on:
        reader.last = last


def _continue(history: History, consumer: str, key: Any, before: tuple[int, Any] | None, stamp_ns: int) -> None:
    """Under a new name, a consumer that goes on where it was begins with what it read last."""
    if before is not None:
        offset, value = before
        history.reads.append((consumer, offset, key, value, history.clock.next(consumer, stamp_ns)))


def _polled(history: History, line: int, polled: Any) -> list[tuple[Any, int, Any]]:
    """The (key, offset, value) of a poll."""
    if not isinstance(polled, Mapping):
        raise HistoryError(history.path, line, f"{polled!r}, expected {{k [[offset v] …]}}")
    found = []
    for name, pairs in polled.items():
        key = _key(name)
        history.partition(key)
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise HistoryError(history.path, line, f"{pair!r}, expected [offset value]")
            if pair[0] is not None:
                found.append((key, pair[0], pair[1]))
    return found


def _key(name: Any) -> Any:
    """In JSON, the keys of maps are text."""
    return int(name) if isinstance(name, str) and name.isdecimal() else name
