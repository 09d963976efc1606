"""The operations of Jepsen's kafka workload, line by line: who sent which record, and who read it where.

`verification/importers/jepsen.py` describes the operations, and writes what is found here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.verification.importers.operations import Operation
from kafka_chaos.verification.importers.writing import Clock
from kafka_chaos.verification.inputs.documents.reading import NUMBER, is_offset, is_whole

MOVES = ("subscribe", "assign")
CARRIES_RECORDS = ("send", "poll", "txn")
CARRIES_NONE = ("crash", "debug-topic-partitions")
"""Operations of the workload that are left out, as are those of the nemesis."""
NEMESIS = "nemesis"
_MOST_PROCESSES = 2**31

Value = tuple[Any, Any]
"""A key, and what was sent to it."""


@dataclass(slots=True)
class Send:
    """A record: its number, where it goes, and where its send ended up."""

    seq: int
    key: Any
    value: Any
    offset: Any = None


@dataclass(slots=True)
class Sending:
    """An operation: its records, and how it ended. `number`: among its process's. `parts`: its micro-operations."""

    process: int
    number: int
    invoke_ns: int
    sends: list[Send]
    f: str
    parts: list[str]
    complete_ns: int | None = None
    type: str = "info"
    error: str | None = "never completed"


@dataclass(slots=True)
class Reader:
    """The reads of a process: how often its assignment changed, and the last (offset, value) that it read of each key.

    `branches`: how many operations read what it reads again. `continued`: its names after the last read of a key.
    """

    assignment: int = 0
    branches: int = 0
    last: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    continued: set[tuple[str, Any]] = field(default_factory=set)


@dataclass(slots=True)
class History:
    """The history in the operations of a log so far.

    `transactional`: whether each of them is a transaction. `numbered`: whether keys are numbers; the maps of JSON, with
    text for keys, do not say. `reads` are (consumer, offset, key, value, poll time, within);
    `within`: the process and the number of the transaction in which it was read, if there is one. `seen`: the values
    that operations have read that ended with ok, each with the time of the first one.
    """

    transactional: bool
    numbered: bool = False
    partitions: dict[Any, int] = field(default_factory=dict)
    identities: dict[Value, tuple[int, int]] = field(default_factory=dict)
    sends: Counter[int] = field(default_factory=Counter)
    sending: defaultdict[int, list[Sending]] = field(default_factory=lambda: defaultdict(list))
    open: dict[int, Sending] = field(default_factory=dict)
    readers: defaultdict[int, Reader] = field(default_factory=lambda: defaultdict(Reader))
    reads: list[tuple[str, int, Any, Any, int, tuple[int, int] | None]] = field(default_factory=list)
    seen: dict[Value, int] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)

    def partition(self, key: Any) -> int:
        """The partition of a key: the key itself if keys are numbers; else keys are numbered as they appear."""
        if key not in self.partitions:
            self.partitions[key] = key if self.numbered else len(self.partitions)
        return self.partitions[key]


def take(history: History, operation: Operation) -> None:
    """Add an operation, the next of the log; raises `ValueError` if it contradicts those before, or is not known."""
    process, kind = operation.get("process"), operation.get("f")
    if process == NEMESIS and kind not in (*CARRIES_RECORDS, *MOVES):
        return
    if not is_offset(process) or process >= _MOST_PROCESSES:
        raise ValueError(f"process is {quoted(process)}, expected a whole number, or {NEMESIS}")
    if kind in CARRIES_NONE:
        value = operation.get("value")
        parts = value if isinstance(value, list) else ()
        if not any(isinstance(part, list) and part[:1] in (["send"], ["poll"]) for part in parts):
            return
    if kind not in (*CARRIES_RECORDS, *MOVES):
        known = ", ".join((*CARRIES_RECORDS, *MOVES, *CARRIES_NONE))
        raise ValueError(f"f is {quoted(kind)}, expected one of {known}")
    stamp_ns = operation.get("time")
    if not is_whole(stamp_ns) or abs(stamp_ns) >= 2**63:
        raise ValueError(f"time is {quoted(stamp_ns)}, expected nanoseconds")
    if operation["type"] == "invoke":
        if process in history.open:
            raise ValueError(f"process {process} invokes before its last operation completed")
        parts = [] if kind in MOVES else _micro_operations(operation)
        sends = _invoked(history, process, parts)
        number = len(history.sending.get(process, ()))
        history.open[process] = Sending(process, number, stamp_ns, sends, kind, [part[0] for part in parts])
        if sends:
            history.sending[process].append(history.open[process])
        return
    if process not in history.open:
        raise ValueError(f"process {process} completes an operation that it never invoked")
    invoked = history.open.pop(process)
    if kind != invoked.f:
        raise ValueError(f"completes a {kind}, but process {process} invoked a {invoked.f}")
    if kind in MOVES:
        _move(history, operation)
        return
    if operation.get("rebalance-log"):
        _reassigned(history.readers[process])
    _complete(history, operation, invoked, stamp_ns)


def _move(history: History, operation: Operation) -> None:
    """An assignment keeps the position of each key that is in it again; a subscription may move anywhere."""
    if operation["type"] == "fail":
        return
    reader = history.readers[int(operation["process"])]
    kept = operation.get("value") if operation["f"] == "assign" and not operation.get("seek-to-beginning?") else None
    keys = [_key(history, key) for key in kept] if isinstance(kept, list) else []
    last = {key: place for key, place in reader.last.items() if key in keys}
    _reassigned(reader)
    reader.last = last


def _reassigned(reader: Reader) -> None:
    reader.assignment += 1
    reader.last = {}


def _micro_operations(operation: Operation) -> list[list[Any]]:
    value = operation.get("value")
    if not isinstance(value, list) or not all(isinstance(micro, list) and micro for micro in value):
        raise ValueError(f"value is {quoted(value)}, expected [[:send k v] [:poll] …]")
    found = []
    for micro in value:
        name = str(micro[0]).lstrip(":")
        if len(micro) not in {"send": (3,), "poll": (1, 2)}.get(name, ()):
            raise ValueError(f"{quoted(micro)} is neither [:send k v] nor [:poll …]")
        found.append([name, *micro[1:]])
    return found


def _invoked(history: History, process: int, parts: list[list[Any]]) -> list[Send]:
    sends = []
    for _, name, value in (part for part in parts if part[0] == "send"):
        key = _key(history, name)
        history.partition(key)
        if not isinstance(value, int | str) or isinstance(value, bool):
            raise ValueError(f"value {quoted(value)} is sent, expected a whole number or a name")
        if (key, value) in history.identities:
            raise ValueError(f"value {value!r} is sent to key {key!r} a second time")
        history.identities[key, value] = (process, history.sends[process])
        sends.append(Send(history.sends[process], key, value))
        history.sends[process] += 1
    return sends


def _complete(history: History, operation: Operation, invoked: Sending, stamp_ns: int) -> None:
    completed = _micro_operations(operation)
    answers = [(_key(history, micro[1]), micro[2]) for micro in completed if micro[0] == "send"]
    is_same = [micro[0] for micro in completed] == invoked.parts
    if not is_same or [key for key, _ in answers] != [send.key for send in invoked.sends]:
        raise ValueError("its sends and polls are not those that the process invoked")
    error = operation.get("error")
    invoked.type, invoked.complete_ns = operation["type"], stamp_ns
    invoked.error = None if error is None else str(error)
    for send, (_, answer) in zip(invoked.sends, answers, strict=True):
        if _is_same(answer, send.value):
            continue
        is_pair = isinstance(answer, list) and len(answer) == 2
        if not is_pair or not _is_same(answer[1], send.value) or not _may_be_offset(answer[0]):
            raise ValueError(f"the answer to {send.value!r} is {quoted(answer)}, expected [offset {send.value!r}]")
        send.offset = answer[0]
    polls = [micro for micro in completed if micro[0] == "poll"]
    if operation["type"] == "ok" and any(len(micro) == 1 for micro in polls):
        raise ValueError("a poll without what it read, expected [:poll {k [[offset v] …]}]")
    read = [micro[1] for micro in polls if len(micro) > 1]
    if read and (history.transactional or operation["type"] != "fail"):
        is_within = history.transactional and bool(invoked.sends)
        _take_polls(history, operation, read, stamp_ns, (invoked.process, invoked.number) if is_within else None)


def _is_same(answer: object, value: object) -> bool:
    return answer == value and not isinstance(answer, bool)


def _may_be_offset(value: object) -> bool:
    return value is None or (is_offset(value) and value < 2**63)


def _take_polls(
    history: History, operation: Operation, polls: list[Any], stamp_ns: int, within: tuple[int, int] | None
) -> None:
    process = int(operation["process"])
    reader = history.readers[process]
    goes_on = not history.transactional or operation["type"] == "ok"
    reader.branches += not goes_on
    last = dict(reader.last)
    for number, polled in enumerate(polls):
        if number and operation.get("rebalance-log"):  # It does not say before which of the polls.
            reader.assignment, last = reader.assignment + 1, {}
        consumer = f"process-{process}/{reader.assignment}" + ("" if goes_on else f"-{reader.branches}")
        for key, offset, value in _polled(history, polled):
            if (consumer, key) not in reader.continued:
                reader.continued.add((consumer, key))
                if key in last:
                    # Under a new name, a consumer that goes on where it was begins with what it read last.
                    before = (consumer, last[key][0], key, last[key][1])
                    history.reads.append((*before, history.clock.next(consumer, stamp_ns), None))
            last[key] = (offset, value)
            history.reads.append((consumer, offset, key, value, history.clock.next(consumer, stamp_ns), within))
            if operation["type"] == "ok":
                history.seen.setdefault((key, value), stamp_ns)
    if goes_on:
        reader.last = last


def _polled(history: History, polled: Any) -> list[tuple[Any, int, Any]]:
    """The (key, offset, value) of a poll."""
    if not isinstance(polled, Mapping):
        raise ValueError(f"{quoted(polled)}, expected {{k [[offset v] …]}}")
    found = []
    for name, pairs in polled.items():
        key = _key(history, name)
        history.partition(key)
        for pair in pairs if isinstance(pairs, list) else [pairs]:
            if not isinstance(pair, list) or len(pair) != 2 or pair[0] is None or not _may_be_offset(pair[0]):
                raise ValueError(f"{quoted(pair)}, expected [offset value]")
            if not isinstance(pair[1], int | str | None) or isinstance(pair[1], bool):
                raise ValueError(f"value {quoted(pair[1])} is read, expected one that is sent")
            found.append((key, pair[0], pair[1]))
    return found


def _key(history: History, name: Any) -> Any:
    """The key that a log writes as `name`. All keys of a log are numbers, or all are names."""
    if history.numbered and isinstance(name, str) and NUMBER.fullmatch(name):
        return int(name)
    if (is_offset(name) and name < _MOST_PROCESSES) if history.numbered else isinstance(name, str):
        return name
    kind = "a whole number, as other keys are" if history.numbered else "a name"
    raise ValueError(f"key {quoted(name)}, expected {kind}")


def are_numbered(operations: Iterable[Operation]) -> bool:
    """Whether a log's keys are numbers: one is in a send, or nobody sends and each poll's key looks like one."""
    names: list[Any] = []
    for operation in operations:
        value = operation.get("value")
        for micro in value if isinstance(value, list) else ():
            if isinstance(micro, list) and len(micro) > 1:
                if is_whole(micro[1]):
                    return True
                names += micro[1] if isinstance(micro[1], dict) else [""]
    return bool(names) and all(is_whole(name) or NUMBER.fullmatch(str(name)) for name in names)
