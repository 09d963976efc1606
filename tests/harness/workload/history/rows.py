"""Rows as a producer would write them."""

import pyarrow as pa

from kafka_chaos.harness.workload.history.writer import PRODUCED_SCHEMA


def produced(seqs: list[int], *, lane: str = "a", producer_id: int = 0) -> pa.Table:
    rows = [
        {
            "lane": lane, "producer_id": producer_id, "seq": seq, "partition": 0, "offset": seq, "invoke_ns": 1,
            "complete_ns": 2, "outcome": "ok", "error": None,
        }
        for seq in seqs
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=PRODUCED_SCHEMA)
