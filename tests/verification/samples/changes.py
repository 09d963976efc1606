"""Events of one partition, in short: who led it, its ISR, what was dropped, and reports of its high watermark.

A fault of broker 1, too, amid which they may come.
"""

from dataclasses import replace

from kafka_chaos.contract.events import HighWatermark, IsrChanged, LeaderElected, LogTruncated, PartitionChanged
from kafka_chaos.verification.inputs.documents.faults import FaultRecord

MS = 1_000_000
PAUSE = FaultRecord(
    "pause-1",
    "pause",
    ("a",),
    resolved=("broker-1",),
    requested=[20 * MS],
    proven=[21 * MS],
    healed=[40 * MS],
    model_faults=("pause",),
)
POWER_LOSS = replace(PAUSE, fault_id="power-loss-1", kind="power-loss", model_faults=("power-loss",))
States = list[tuple[int, tuple[int, ...] | None]]
"""When in milliseconds a partition has come to which ISR, which the log may not tell."""


def elected(
    ts_ns: int, broker: int, epoch: int, start: int, isr: tuple[int, ...], lane: str = "a", partition: int = 0
) -> LeaderElected:
    return LeaderElected(
        ts_ns=ts_ns, broker=broker, lane=lane, partition=partition, leader_epoch=epoch, start_offset=start, isr=isr
    )


def truncated(ts_ns: int, broker: int, offset: int, log_end: int | None) -> LogTruncated:
    return LogTruncated(ts_ns=ts_ns, broker=broker, lane="a", partition=0, offset=offset, log_end=log_end)


def isr_seen(ts_ns: int, isr: tuple[int, ...]) -> IsrChanged:
    return IsrChanged(ts_ns=ts_ns, lane="a", partition=0, isr=isr)


def reported(ts_ns: int, lane: str, partition: int, epoch: int, mark: int) -> HighWatermark:
    return HighWatermark(ts_ns=ts_ns, lane=lane, partition=partition, leader_epoch=epoch, high_watermark=mark)


def states(given: States, first: int = 0, newest: int | None = None) -> list[PartitionChanged]:
    last = first + len(given) - 1 if newest is None else newest
    return [
        PartitionChanged(ts_ns=ms * MS, node=1, lane="a", partition=0, partition_epoch=number, isr=isr, newest=last)
        for number, (ms, isr) in enumerate(given, first)
    ]
