"""Recognises in a producer's log that the precondition of a known defect of its client library has occurred.

A line is recognised by its text. If a version of the library words the line differently, the defect explains no
finding. A producer in a process of its own passes its log on by events of the client protocol. With
`debug=eos`, librdkafka logs two preconditions, in a few lines per run:

- librdkafka-4953: an idempotent producer renews its producer epoch because messages timed out or sequence numbers were
  skipped, as the line says. A renewal for another reason is what KIP-360 asks for, and no precondition.
- KAFKA-15591: librdkafka reports messages as acknowledged because a later message to their partition was
  (`IMPLICITACK`, `rd_kafka_dr_implicit_ack`). That is wrong if the leader did not append these messages and they
  begin with message 1: a leader accepts any first message from a producer that is new to the partition.

Other acknowledgements without an offset are right: `IMPLICITACK` of messages after message 1, since a leader that knows
the producer appends no message without the messages before it, and `DUPSEQ`, the answer to a retry of messages that the
leader had already (`rd_kafka_handle_idempotent_Produce_error`).

For other clients, known_defects.toml has a regular expression (`log`) for the lines that show the precondition: kafkajs
repeats a send() (kafkajs-1005, kafkajs-822); sarama sends messages of a partition again (sarama-2619), or sends those
that waited behind them (sarama-3354); in kafka-python, messages expired (KAFKA-5385).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from kafka_chaos.contract.events import AcknowledgedWithoutOffset, DefectPrecondition, Event
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.clients.kinds import IN_PROCESS
from kafka_chaos.harness.clients.python_client import line_logger
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS

_EPOCH_BUMP = re.compile(
    r"drain in state .* epoch bump .*: (?P<why>\d+ message\(s\) timed out on .*|skipped sequence .*)"
)
_ACKNOWLEDGED_WITHOUT_OFFSET = re.compile(
    r"(?:^|\s)(?P<text>(?P<topic>\S+) \[(?P<partition>\d+)\] (?:with )?(?P<messages>\d+) message\(s\) "
    r"(?:implicitly acked by .*?\(msgids (?P<first>\d+)\.\.(?P<last>\d+)\b|failed due to duplicate sequence number).*)"
)
_DEBUG = 7  # The syslog level of `log_level` that passes every line.
_LOG_KEYS = frozenset(("debug", "logger"))

ReadLine = Callable[[str], None]
"""Reads a line of one producer's log, and emits an event for each precondition or missing offset that it shows."""


def log_reader(
    lane: Lane, configs: Mapping[str, object], emit: Callable[[Event], None], *, producer_id: int
) -> ReadLine | None:
    """The reader of the log of a producer in this lane with these configs; None if its log shows no precondition.

    `emit` gets the events. librdkafka's log is read if the producer is idempotent and has no logger yet;
    another client's log is read if a defect with a pattern concerns the lane.
    """
    is_transactional = "transactional.id" in configs
    lane_defects = [defect for defect in MODELLED_DEFECTS.values() if defect.log and defect.concerns(lane)]

    def tell(kind: type[DefectPrecondition | AcknowledgedWithoutOffset], evidence: str, **more: Any) -> None:
        emit(kind(lane=lane.lane, producer_id=producer_id, evidence=evidence, **more))

    def read_line_of_librdkafka(line: str) -> None:
        if (match := _ACKNOWLEDGED_WITHOUT_OFFSET.search(line)) is not None and match["topic"] == lane.topic:
            fields = {key: int(match[key]) for key in ("partition", "messages")}
            evidence = f"librdkafka: {match['text']}"
            are_the_first = (match["first"], match["last"]) == ("1", match["messages"])
            # Neither defect concerns a transactional producer, but its acknowledgements may lack an offset, too.
            if are_the_first and not is_transactional:
                tell(DefectPrecondition, evidence, defect="KAFKA-15591", **fields)
            else:
                tell(AcknowledgedWithoutOffset, evidence, **fields)
        elif not is_transactional and (epoch_bump := _EPOCH_BUMP.search(line)) is not None:
            evidence = f"librdkafka renews the producer epoch: {epoch_bump['why']}"
            tell(DefectPrecondition, evidence, defect="librdkafka-4953")

    def read_line_of_other_client(line: str) -> None:
        for defect in lane_defects:
            match = re.search(defect.log, line)
            if match is not None and (named := match.groupdict()).get("topic", lane.topic) == lane.topic:
                partition = {"partition": int(named["partition"])} if "partition" in named else {}
                tell(DefectPrecondition, f"{defect.component}: {named['text']}", defect=defect.id, **partition)

    if (lane.client or IN_PROCESS).partition(" ")[0] != IN_PROCESS:
        return read_line_of_other_client if lane_defects else None
    reads_log = configs.get("enable.idempotence") is True and not configs.keys() & _LOG_KEYS
    return read_line_of_librdkafka if reads_log else None


def with_log_reader(configs: Mapping[str, object], read_line: ReadLine | None) -> dict[str, object]:
    """The configs of a producer, by which librdkafka passes log lines to `read_line` within `poll` and `flush`."""
    watched = {} if read_line is None else {"debug": "eos", "log_level": _DEBUG, "logger": line_logger(read_line)}
    return {**configs, **watched}
