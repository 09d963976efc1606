"""Events of one partition, in short: who led it, its ISR, what was dropped, and reports of its high watermark."""

from kafka_chaos.contract.events import HighWatermark, IsrChanged, LeaderElected, LogTruncated


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
