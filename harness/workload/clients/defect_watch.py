"""Tells from a producer's log when it meets the precondition of a known defect of its client library.

If a version logs other texts, nothing is recorded, and no defect is named. A producer in a process of its own tells its
log by events of the client protocol. librdkafka logs two preconditions with `debug=eos`, in a few lines per run:

- librdkafka-4953: messages timed out or sequence numbers were skipped, so an idempotent producer renews its producer
  epoch. The log names the reason of each renewal. A renewal for another reason is no precondition: KIP-360 asks for
  it.
- KAFKA-15591: the first messages to a partition are acknowledged because a later one was (`IMPLICITACK`). They begin
  with message 1: no broker knew anything of the producer in that partition.

Two lines of that log report acknowledgements without an offset that are no defect: `IMPLICITACK` of later messages,
which a broker can only have refused if it had the messages before them, and `DUPSEQ`, a retry of messages that a broker
had already (`rd_kafka_dr_implicit_ack` and `rd_kafka_handle_idempotent_Produce_error` in librdkafka).

For other clients, known_defects.toml has the form of the log line that shows the precondition (`log`): in kafkajs, a
send() has to be repeated (kafkajs-1005, kafkajs-822); in sarama, messages of a partition have to be sent again
(sarama-2619), or waited behind such messages (sarama-3354); in kafka-python, messages expired (KAFKA-5385).
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
_NO_OFFSET = re.compile(
    r"(?:^|\s)(?P<text>(?P<topic>\S+) \[(?P<partition>\d+)\] (?:with )?(?P<messages>\d+) message\(s\) "
    r"(?:implicitly acked by .*?\(msgids (?P<first>\d+)\.\.(?P<last>\d+)\b|failed due to duplicate sequence number).*)"
)
_DEBUG = 7
_LOG_KEYS = frozenset(("debug", "logger"))


@dataclass(slots=True)
class Watch:
    """Reads the log of one idempotent producer of librdkafka.

    `on_precondition` gets an event for each precondition, and for acknowledgements without an offset. `transactional`:
    neither defect concerns the producer, but its acknowledgements may lack an offset.
    """

    on_precondition: OnPrecondition
    _: KW_ONLY
    lane: str
    topic: str
    producer_id: int
    transactional: bool = False

    def read_line(self, line: str) -> None:
        """Read a line of the log, and emit an event for a precondition or a missing offset."""
        if (no_offset := _NO_OFFSET.search(line)) is not None and no_offset["topic"] == self.topic:
            values = {key: int(no_offset[key]) for key in ("partition", "messages")}
            evidence = f"librdkafka: {no_offset['text']}"
            begins_with_first = (no_offset["first"], no_offset["last"]) == ("1", no_offset["messages"])
            if begins_with_first and not self.transactional:
                self._tell(DefectPrecondition, evidence, defect="KAFKA-15591", **values)
            else:
                self._tell(AcknowledgedWithoutOffset, evidence, **values)
        elif not self.transactional and (epoch_bump := _EPOCH_BUMP.search(line)) is not None:
            evidence = f"librdkafka renews the producer epoch: {epoch_bump['why']}"
            self._tell(DefectPrecondition, evidence, defect="librdkafka-4953")

    def _tell(self, kind: type[DefectPrecondition | AcknowledgedWithoutOffset], evidence: str, **more: Any) -> None:
        self.on_precondition(kind(lane=self.lane, producer_id=self.producer_id, evidence=evidence, **more))


@dataclass(slots=True)
class RepeatWatch(Watch):
    """Reads the log of one producer of another client. Each of the `defects` has the form of the line that shows it."""

    defects: Sequence[KnownDefect]

    def read_line(self, line: str) -> None:
        """Read a line of the log, and emit an event for each defect whose precondition the line shows."""
        for defect in self.defects:
            match = re.search(defect.log, line)
            if match is not None and (values := match.groupdict()).get("topic", self.topic) == self.topic:
                partition = {"partition": int(values["partition"])} if "partition" in values else {}
                self._tell(DefectPrecondition, f"{defect.component}: {values['told']}", defect=defect.id, **partition)


def watch_of(
    configs: Mapping[str, object], on_precondition: OnPrecondition | None, *, lane: str, topic: str, producer_id: int
) -> Watch | None:
    """A watch for a librdkafka producer with these configs; None if it isn't idempotent or has a logger already."""
    if on_precondition is None or configs.get("enable.idempotence") is not True or configs.keys() & _LOG_KEYS:
        return None
    transactional = "transactional.id" in configs
    return Watch(on_precondition, lane=lane, topic=topic, producer_id=producer_id, transactional=transactional)


def repeat_watch_of(lane: Lane, on_precondition: OnPrecondition | None, *, producer_id: int) -> RepeatWatch | None:
    """A watch for a producer of another client; None if its client has no such defect with the lane's settings."""
    concerned = [defect for defect in MODELLED_DEFECTS.values() if defect.log and defect.concerns(lane)]
    if on_precondition is None or not concerned:
        return None
    return RepeatWatch(on_precondition, lane=lane.lane, topic=lane.topic, producer_id=producer_id, defects=concerned)


def with_log_watch(configs: Mapping[str, object], watch: Watch | None) -> dict[str, object]:
    """A producer's configs, with a logger that passes log lines to `watch`, if any, from within `poll` and `flush`."""
    if watch is None:
        return dict(configs)

    def read(record: logging.LogRecord) -> bool:
        watch.read_line(record.getMessage())
        return False

    # Not by getLogger, which keeps each logger for ever. No handler is needed: the filter lets no line pass.
    logger = logging.Logger(f"kafka_chaos.producer.{watch.lane}")
    logger.addFilter(read)
    return {**configs, "debug": "eos", "log_level": _DEBUG, "logger": logger}
