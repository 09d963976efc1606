"""Clean run directories to take evidence away from, and what is judged of them."""

from pathlib import Path

from kafka_chaos.verification.judging.result import RunVerdict
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows


def with_replicas(rows: Rows, count: int = 20, *, brokers: tuple[int, ...] = (1, 2, 3)) -> Rows:
    for broker in brokers:
        for seq in range(count):
            rows.replica(broker, seq, seq)
    entry = {"high_watermark": count, "log_end_offset": count}
    rows.checkpoints = {"brokers": {str(broker): {"a/0": dict(entry)} for broker in (1, 2, 3)}}
    return rows


def judged(rows: Rows, folder: Path, verified: Verified) -> RunVerdict:
    return verified(rows.write(folder))


def reasons(verdict: RunVerdict) -> str:
    return "; ".join(verdict.lanes[0].reasons)
