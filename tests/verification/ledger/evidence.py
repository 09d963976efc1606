"""Clean run directories to take evidence away from, and what is judged of them."""

from kafka_chaos.verification.judging.result import RunVerdict
from tests.verification.samples.run_dirs import Rows


def with_replicas(rows: Rows) -> Rows:
    """Rows of `rows_of()` on each of three brokers, too."""
    for broker in (1, 2, 3):
        for seq in range(20):
            rows.replica(broker, seq, seq)
    entry = {"high_watermark": 20, "log_end_offset": 20}
    rows.checkpoints = {"brokers": {str(broker): {"a/0": dict(entry)} for broker in (1, 2, 3)}}
    return rows


def reasons(verdict: RunVerdict) -> str:
    return "; ".join(verdict.lanes[0].reasons)
