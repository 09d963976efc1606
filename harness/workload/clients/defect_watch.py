"""Recognises in a producer's log that the precondition of a known defect of its client library has occurred.

A line is recognised by its text. A version of the library that words it differently is not recognised: then no finding
is explained by the defect. A producer in a process of its own passes its log on by events of the client protocol. With
`debug=eos`, librdkafka logs two preconditions, in a few lines per run:

- librdkafka-4953: an idempotent producer renews its producer epoch because messages timed out or sequence numbers were
  skipped, as the line says. A renewal for another reason is what KIP-360 asks for, and no precondition.
- KAFKA-15591: librdkafka reports messages as acknowledged because a later message to their partition was
  (`IMPLICITACK`, `rd_kafka_dr_implicit_ack`). That is wrong if they begin with message 1 and the leader did not take
  them: from a producer that is new to the partition, it takes a later message all the same.

Other acknowledgements without an offset are right: `IMPLICITACK` of messages after others, since a leader that knows
the producer takes no message without those before it, and `DUPSEQ`, the answer to a retry of messages that the leader
had already (`rd_kafka_handle_idempotent_Produce_error`).

For other clients, known_defects.toml has a regular expression (`log`) for the lines that show the precondition: kafkajs
repeats a send() (kafkajs-1005, kafkajs-822); sarama sends messages of a partition again (sarama-2619), or sends those
that waited behind them (sarama-3354); in kafka-python, messages expired (KAFKA-5385).
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from kafka_chaos.contract.events import AcknowledgedWithoutOffset, DefectPrecondition
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.workload.settings import OnPrecondition
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS, KnownDefect

_EPOCH_BUMP = re.compile(
    r"drain in state .* epoch bump .*: (?P<why>\d+ message\(s\) timed out on .*|skipped sequence .*)"
)
_ACKNOWLEDGED_WITHOUT_OFFSET = re.compile(
    r"(?:^|\s)(?P<text>(?P<topic>\S+) \[(?P<partition>\d+)\] (?:with )?(?P<messages>\d+) message\(s\) "
    r"(?:implicitly acked by .*?\(msgids (?P<first>\d+)\.\.(?P<last>\d+)\b|failed due to duplicate sequence number).*)"
)
_DEBUG = 7  # The syslog level of `log_level` that passes every line.
_LOG_KEYS = frozenset(("debug", "logger"))


@dataclass(slots=True)
class Watch:
    """Reads the log of one idempotent producer of librdkafka.

    `on_precondition` gets an event for each precondition, and for acknowledgements without an offset. Neither defect
    concerns a `transactional` producer, but its acknowledgements may lack an offset, too.
    """

    on_precondition: OnPrecondition
    _: KW_ONLY
    lane: str
    topic: str
    producer_id: int
    transactional: bool = False

    def read_line(self, line: str) -> None:
        """Read a line of the log, and emit an event for a precondition or a missing offset."""
        if (match := _ACKNOWLEDGED_WITHOUT_OFFSET.search(line)) is not None and match["topic"] == self.topic:
            fields = {key: int(match[key]) for key in ("partition", "messages")}
            evidence = f"librdkafka: {match['text']}"
            are_the_first = (match["first"], match["last"]) == ("1", match["messages"])
            if are_the_first and not self.transactional:
                self._tell(DefectPrecondition, evidence, defect="KAFKA-15591", **fields)
            else:
                self._tell(AcknowledgedWithoutOffset, evidence, **fields)
        elif not self.transactional and (epoch_bump := _EPOCH_BUMP.search(line)) is not None:
            evidence = f"librdkafka renews the producer epoch: {epoch_bump['why']}"
            self._tell(DefectPrecondition, evidence, defect="librdkafka-4953")

    def _tell(self, kind: type[DefectPrecondition | AcknowledgedWithoutOffset], evidence: str, **more: Any) -> None:
        self.on_precondition(kind(lane=self.lane, producer_id=self.producer_id, evidence=evidence, **more))


@dataclass(slots=True)
class PatternWatch(Watch):
    """Reads the log of one producer of another client, for lines that match the pattern (`log`) of a defect."""

    defects: Sequence[KnownDefect]

    def read_line(self, line: str) -> None:
        """Read a line of the log, and emit an event for each defect whose precondition the line shows."""
        for defect in self.defects:
            match = re.search(defect.log, line)
            if match is not None and (named := match.groupdict()).get("topic", self.topic) == self.topic:
                partition = {"partition": int(named["partition"])} if "partition" in named else {}
                self._tell(DefectPrecondition, f"{defect.component}: {named['text']}", defect=defect.id, **partition)


def watch_of(
    configs: Mapping[str, object], on_precondition: OnPrecondition | None, *, lane: str, topic: str, producer_id: int
) -> Watch | None:
    """A watch for a librdkafka producer with these configs; None if it isn't idempotent or has a logger already."""
    if on_precondition is None or configs.get("enable.idempotence") is not True or configs.keys() & _LOG_KEYS:
        return None
    transactional = "transactional.id" in configs
    return Watch(on_precondition, lane=lane, topic=topic, producer_id=producer_id, transactional=transactional)


def pattern_watch_of(lane: Lane, on_precondition: OnPrecondition | None, *, producer_id: int) -> PatternWatch | None:
    """A watch for a producer of another client; None if no defect with a pattern concerns the lane."""
    concerned = [defect for defect in MODELLED_DEFECTS.values() if defect.log and defect.concerns(lane)]
    if on_precondition is None or not concerned:
        return None
    return PatternWatch(on_precondition, lane=lane.lane, topic=lane.topic, producer_id=producer_id, defects=concerned)


def with_log_watch(configs: Mapping[str, object], watch: Watch | None) -> dict[str, object]:
    """The configs of a producer, by which librdkafka passes log lines to `watch`, if any, within `poll` and `flush`."""
    if watch is None:
        return dict(configs)

    def read(record: logging.LogRecord) -> bool:
        watch.read_line(record.getMessage())
        return False

    # Not by getLogger, which keeps each logger for ever. No handler is needed: the filter lets no line pass.
    logger = logging.Logger(f"kafka_chaos.producer.{watch.lane}")
    logger.addFilter(read)
    return {**configs, "debug": "eos", "log_level": _DEBUG, "logger": logger}
