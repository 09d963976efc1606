"""Tells from librdkafka's log when a producer meets the precondition of a known defect.

librdkafka-4953: messages timed out or sequence numbers were skipped, so an idempotent producer renews its producer
epoch. The log names the reason of each renewal, at the debug level `eos`, in a few lines per run. A renewal for another
reason, which KIP-360 asks for, is none. Where the text differs, nothing is recorded, and no defect is named.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.reference_model.protocol.known_defects import LIBRDKAFKA_4953

OnPrecondition = Callable[[DefectPrecondition], None]

_RENEWAL = re.compile(r"drain in state .* epoch bump .*: (?P<why>\d+ message\(s\) timed out on .*|skipped sequence .*)")
_DEBUG = 7
_LOG_KEYS = frozenset(("debug", "logger"))


def watched(
    configs: Mapping[str, object], on_precondition: OnPrecondition | None, *, lane: str, producer_id: int
) -> dict[str, object]:
    """A producer's configs with which it calls `on_precondition`, once, from within `poll` and `flush`.

    Unchanged for a producer that is not idempotent, and for an application's that reads the log itself.
    """
    if on_precondition is None or configs.get("enable.idempotence") is not True or configs.keys() & _LOG_KEYS:
        return dict(configs)
    # Not by getLogger: loggers that are known by name never go.
    logger = logging.Logger(f"kafka_chaos.producer.{lane}")
    logger.addHandler(_Watch(on_precondition, lane, producer_id))
    return {**configs, "debug": "eos", "log_level": _DEBUG, "logger": logger}


class _Watch(logging.Handler):
    def __init__(self, on_precondition: OnPrecondition, lane: str, producer_id: int) -> None:
        super().__init__()
        self._on_precondition = on_precondition
        self._lane = lane
        self._producer_id = producer_id
        self._told = False

    def emit(self, record: logging.LogRecord) -> None:
        renewal = None if self._told else _RENEWAL.search(record.getMessage())
        if renewal is not None:
            self._told = True
            self._on_precondition(
                DefectPrecondition(
                    defect=LIBRDKAFKA_4953.id,
                    lane=self._lane,
                    producer_id=self._producer_id,
                    evidence=f"librdkafka renews the producer epoch: {renewal['why']}",
                )
            )
