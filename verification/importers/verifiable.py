"""Turns the output of Kafka's VerifiableProducer and VerifiableConsumer into a run directory.

Guarantee: every acknowledgement and every read becomes a row. A record that may have been sent, but has no line because
the tool was killed, becomes `info`, never a phantom. A line that can't be understood is an error; on request, lines
that are no JSON objects, such as those of a log on the same stream, are left out and counted.

A value is `N` or `P.N`: the N-th record of a producer, started with `--value-prefix P`. So (P, N) is a record's
identity; without a prefix, P is 0. Only a consumer started with `--verbose` reports its reads one by one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.importers.writing import Clock, HistoryError, RunWriter, new_run
from kafka_chaos.verification.inputs.documents.reading import parsed
from kafka_chaos.verification.inputs.storage import RunPath

MILLISECOND = 1_000_000
UNDECODABLE = (-1, -1)
CERTAINLY_NOT_WRITTEN = ("RecordTooLargeException", "SerializationException", "InvalidTopicException")
"""Errors that exclude every attempt. After any other error, an earlier attempt may be in the log: info."""

_OF_SHARE_CONSUMERS = ("offsets_acknowledged", "offset_reset_strategy_set")
_NOT_A_SHARE_CONSUMER = (
    "this is the output of VerifiableShareConsumer: expected that of VerifiableConsumer, since a share group delivers "
    "records in any order and more than once (KIP-932)"
)
_VALUE = re.compile(r"(?:([0-9]{1,9})\.)?([0-9]{1,18})")


@dataclass(slots=True)
class _Sent:
    """One producer's records on one topic."""

    invoke_ns: int
    reported: set[int] = field(default_factory=set)
    announced: int = 0
    ended: bool = False


@dataclass(slots=True)
class _Seen:
    """Per topic: the highest partition; per topic and producer: the reported records; the highest that was read.

    `may_go_back`: whether consumers may be reset below their position, since records that they read may be lost.
    """

    skip_others: bool = False
    may_go_back: bool = False
    skipped: int = 0
    partitions: dict[str, int] = field(default_factory=dict)
    sent: dict[tuple[str, int], _Sent] = field(default_factory=dict)
    highest_read: dict[tuple[str, int], int] = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> None:
        self.partitions[topic] = max(partition, self.partitions.get(topic, 0))


def import_verifiable(
    producers: Sequence[Path],
    consumers: Sequence[Path],
    out: str | RunPath,
    *,
    settings: Mapping[str, Any] | None = None,
    skip_others: bool = False,
) -> tuple[list[Lane], int]:
    """Write the run directory `out` from the tools' output; each topic is a lane. Returns lanes and skipped lines.

    `settings`: further keys of `lanes.json`, alike for all lanes, such as `acks` or `faults`. `skip_others`: whether
    lines that do not begin as a JSON object are skipped. Raises `HistoryError`.
    """
    given = settings or {}
    seen = _Seen(skip_others, bool(given.get("unclean_leader_election")) or "power-loss" in given.get("faults", ()))
    with new_run(out) as writer:
        for path in producers:
            _read_producer(path, writer, seen)
        clock = Clock()
        for number, path in enumerate(consumers):
            _read_consumer(path, f"consumer-{number}", writer, seen, clock)
        _add_untold(writer, seen)
        if not seen.partitions:
            raise HistoryError(producers[0], None, "reports no record, expected producer_send_success lines")
        template = Lane.from_json({"lane": "-", **given})
        lanes = [
            replace(template, lane=topic, topic=topic, partitions=highest + 1)
            for topic, highest in sorted(seen.partitions.items())
        ]
        writer.finish(lanes)
    return lanes, seen.skipped


class _Event:
    """One line's object and its `name`; its other fields are read by type."""

    def __init__(self, path: Path, line: int, fields: Mapping[str, Any]) -> None:
        self.path, self.line, self.fields, self.name = path, line, fields, fields["name"]

    def text(self, name: str) -> str:
        return str(self._of(name, str, "a text"))

    def number(self, name: str, most: int = 2**63) -> int:
        """The field as a whole number from -1, which stands for none, to `most`, exclusively."""
        value = int(self._of(name, int, "a whole number"))
        if not -1 <= value < most:
            raise self.error(f"{name} is {value}, expected at most {most - 1}")
        return value

    def time_ns(self) -> int:
        return self.number("timestamp", 2**63 // MILLISECOND) * MILLISECOND

    def place(self) -> tuple[int, int]:
        """Partition and offset."""
        return self.number("partition", 2**31), self.number("offset")

    def _of(self, name: str, kind: type, expected: str) -> Any:
        value = self.fields.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(f"{name} is {value!r}, expected {expected}")
        return value

    def error(self, problem: str) -> HistoryError:
        return HistoryError(self.path, self.line, f"{self.name}: {problem}")


def _events(path: Path, seen: _Seen) -> Iterator[_Event]:
    with path.open(encoding="utf-8", errors="strict") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                if seen.skip_others and not line.lstrip().startswith("{"):
                    seen.skipped += 1
                    continue
                try:
                    fields = parsed(line)
                except ValueError as error:
                    hint = "" if line.lstrip().startswith("{") else "; --skip-other-lines leaves such lines out"
                    raise HistoryError(path, number, f"{error}{hint}") from error
                if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
                    raise HistoryError(path, number, "expected an object with a name, as the Verifiable tools print")
                yield _Event(path, number, fields)
        except UnicodeDecodeError as error:
            raise HistoryError(path, None, f"not text in UTF-8 ({error})") from error


def _identity(value: object) -> tuple[int, int]:
    match = _VALUE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return UNDECODABLE
    return int(match[1] or 0), int(match[2])


def _read_producer(path: Path, writer: RunWriter, seen: _Seen) -> None:
    started_ns, announced, ended, lines, acknowledged = 0, -1, False, 0, 0
    mine: set[tuple[str, int]] = set()
    for event in _events(path, seen):
        if event.name == "startup_complete":
            started_ns = event.time_ns()
        elif event.name in {"producer_send_success", "producer_send_error"}:
            is_ok = event.name == "producer_send_success"
            if is_ok and (ended or announced >= 0):
                raise event.error("comes after the end of the tool")
            lines, acknowledged = lines + 1, acknowledged + is_ok
            mine.add(_take_send(event, writer, seen, started_ns, is_ok=is_ok))
        elif event.name == "tool_data" and announced < 0:
            announced, acked = event.number("sent"), event.number("acked")
            if acked != acknowledged or announced < lines:
                told = f"{announced} sent and {acked} acknowledged, but {lines} and {acknowledged} lines come before it"
                raise event.error(told)
        elif event.name == "shutdown_complete":
            ended = True
        else:
            raise event.error(f"no event of VerifiableProducer{' at this place' if event.name == 'tool_data' else ''}")
    if not (lines or ended):
        raise HistoryError(path, None, "ends before the first record: it does not say which records it may have sent")
    for key in mine:
        # The tool counts what it sent altogether.
        seen.sent[key].announced = announced if len(mine) == 1 else 0
        seen.sent[key].ended = ended


def _take_send(event: _Event, writer: RunWriter, seen: _Seen, started_ns: int, *, is_ok: bool) -> tuple[str, int]:
    topic, stamp_ns = event.text("topic"), event.time_ns()
    producer_id, seq = _identity(event.text("value"))
    if (producer_id, seq) == UNDECODABLE:
        raise event.error(
            f"value is {event.fields['value']!r}, expected N or P.N as VerifiableProducer numbers records"
        )
    sent = seen.sent.setdefault((topic, producer_id), _Sent(started_ns or stamp_ns))
    if seq in sent.reported:
        hint = "two producers need different --value-prefix"
        raise event.error(f"value {event.fields['value']!r} of topic {topic!r} occurs twice; {hint}")
    sent.reported.add(seq)
    partition = offset = error = None
    outcome = "ok"
    if is_ok:
        partition, offset = event.place()
        seen.partition(topic, partition)
    else:
        seen.partition(topic, 0)
        error = f"{event.text('exception')}: {event.fields.get('message')}"
        outcome = "fail" if event.text("exception").endswith(CERTAINLY_NOT_WRITTEN) else "info"
    key = event.fields.get("key")
    writer.row(
        "produced",
        lane=topic,
        producer_id=producer_id,
        seq=seq,
        key=None if key is None else str(key),
        partition=partition,
        # With acks=0 the client reports the offset −1.
        offset=None if offset is None or offset < 0 else offset,
        invoke_ns=sent.invoke_ns,
        complete_ns=stamp_ns,
        outcome=outcome,
        error=error,
    )
    return topic, producer_id


def _read_consumer(path: Path, name: str, writer: RunWriter, seen: _Seen, clock: Clock) -> None:
    assignment, limit_reached = 0, False
    last: dict[tuple[str, int], int] = {}
    batch: list[tuple[str, int, int]] = []
    for event in _events(path, seen):
        if event.name == "partitions_assigned":
            assignment += 1
        elif event.name == "startup_complete":
            # What ended before may have been killed in the middle of a batch.
            limit_reached = False
            batch.clear()
        elif limit_reached and event.name in {"records_consumed", "record_data"}:
            raise event.error("comes after a batch that --max-messages cut short, after which nothing more is read")
        elif event.name == "records_consumed":
            limit_reached = _compare(event, batch) > len(batch)
            batch.clear()
        elif event.name == "shutdown_complete" and batch:
            raise event.error(f"no records_consumed counts the {len(batch)} record_data lines before it")
        elif event.name == "record_data":
            topic, (partition, offset) = event.text("topic"), event.place()
            if min(partition, offset) < 0:
                raise event.error(f"was read at offset {offset} of partition {partition}, expected no number below 0")
            batch.append((topic, partition, offset))
            producer_id, seq = _identity(event.fields.get("value"))
            seen.partition(topic, partition)
            if seen.may_go_back and offset <= last.get((topic, partition), -1):
                assignment += 1  # A reset (KIP-320), which the tool does not report.
            last[topic, partition] = offset
            stamp_ns = clock.next(name, event.time_ns())
            where = {"lane": topic, "consumer": f"{name}/{assignment}", "partition": partition, "offset": offset}
            writer.row("consumed", **where, producer_id=producer_id, seq=seq, poll_ns=stamp_ns)
            if (producer_id, seq) != UNDECODABLE:
                read = seen.highest_read
                read[topic, producer_id] = max(seq, read.get((topic, producer_id), seq))
        elif event.name not in {"shutdown_complete", "partitions_revoked", "offsets_committed"}:
            raise event.error(
                _NOT_A_SHARE_CONSUMER if event.name in _OF_SHARE_CONSUMERS else "no event of VerifiableConsumer"
            )


def _compare(event: _Event, batch: Sequence[tuple[str, int, int]]) -> int:
    """Refuse a summary that does not match the reads before it; return how many records were polled.

    A read is its topic, partition and offset. The tool polls a batch, delivers of it what `--max-messages` allows, and
    counts what it polled; `partitions` counts what it delivered.
    """
    polled = event.number("count")
    if polled and not batch:
        raise event.error("says how many records were read, but not which: start VerifiableConsumer --verbose")
    delivered = 0
    for entry in event.fields.get("partitions") or ():
        if not isinstance(entry, dict):
            raise event.error(f"partitions holds {quoted(entry)}, expected objects")
        if "offsets" in entry:
            raise event.error(_NOT_A_SHARE_CONSUMER)
        at = [
            offset for topic, number, offset in batch if (topic, number) == (entry.get("topic"), entry.get("partition"))
        ]
        told = [entry.get(name) for name in ("count", "minOffset", "maxOffset")]
        if told != [len(at), min(at, default=-1), max(at, default=-1)]:
            raise event.error(f"{quoted(entry)} does not match the record_data lines before it")
        delivered += len(at)
    if len(batch) != (delivered or polled) or polled < delivered:
        raise event.error(f"count is {polled}, but {len(batch)} record_data lines come before it")
    return polled


def _add_untold(writer: RunWriter, seen: _Seen) -> None:
    """Add rows of outcome `info` for records that may have been sent, but have no line: numbers have no gaps."""
    for (topic, producer_id), sent in seen.sent.items():
        end = max(max(sent.reported) + 1, sent.announced)
        if not sent.ended:
            end = max(end, seen.highest_read.get((topic, producer_id), -1) + 1)
        for seq in range(end):
            if seq not in sent.reported:
                who = {"lane": topic, "producer_id": producer_id, "seq": seq}
                told = {"outcome": "info", "error": "the tool did not report it"}
                writer.row("produced", **who, invoke_ns=sent.invoke_ns, **told)
