"""Verification of transactional lanes: time and peak memory by the number of transactions, and the right verdict.

usage: verify_transactions.py [--transactions 10000 100000 1000000] [--planted] [--reads] [--engine duckdb]
                              [--work-dir DIR]

Makes a run directory of that many transactions of 10 records in four lanes: four producers side by side, three
partitions on three brokers, a tenth aborted, a thousandth in doubt, one consumer in each isolation level. In a
hundredth of the rounds, two partitions have the transactions in opposite orders: a cycle of dependencies. `--planted`
damages the first lane, so that it has a case of most other anomalies. `--reads`: transactions read, too. The process
that verifies is a separate one, whose peak memory is measured as in verify_sizes.py; Spark's start and two small runs
are not counted. Prints one JSON object per size; exits with 1 if a verdict or a count is not what it should be.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from generated_histories import LaneTables, TransactionsShape, planted, transaction_tables, write_run
from verify_sizes import cpu_seconds, measured_process

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.verification import spark_session, verify

LANES = 4
EXPECTED = "expected.json"


def lanes(transactions: int, *, plant: bool, reads: bool) -> Iterator[LaneTables]:
    """Four lanes; the first one has the plants."""
    for number in range(LANES):
        shape = TransactionsShape(lane=f"t{number}", transactions=transactions // LANES, entangled=0.01, reads=reads)
        made = transaction_tables(shape, seed=1)
        yield planted(made) if plant and not number else made


def make(folder: Path, transactions: int, *, plant: bool, reads: bool = False) -> Path:
    """The run directory, with the counts that are expected of each lane beside its tables."""
    expected: dict[str, dict[str, int]] = {}

    def noted() -> Iterator[LaneTables]:
        for made in lanes(transactions, plant=plant, reads=reads):
            expected[made.shape.lane] = made.expected
            yield made

    write_run(folder, noted())
    (folder / EXPECTED).write_text(json.dumps(expected))
    return folder


def verified(run_dir: Path, engine: str) -> dict[str, Any]:
    """The verdict and the seconds that it took; by Spark, in a session that has verified two small runs."""
    if engine == "duckdb":
        verify_by = partial(verify, engine=engine)
    else:
        verify_by = partial(verify, spark=spark_session(rows=2**31))
        with tempfile.TemporaryDirectory() as scratch:
            small = make(Path(scratch) / "run", 10_000, plant=True)
            for _ in range(2):
                verify_by(small)
    before = cpu_seconds()
    verdict = verify_by(run_dir)
    counts = {lane.lane: {str(name): seen.count for name, seen in lane.observed.items()} for lane in verdict.lanes}
    return {
        "seconds": round(verdict.seconds, 1),
        "cpu_seconds": round(cpu_seconds() - before, 1),
        "verdict": str(verdict.verdict),
        "right": counts == json.loads((run_dir / EXPECTED).read_text()),
        "rows": sum(table.rows_as_read for table in verdict.tables.values()),
        "found": counts,
        "reasons": {lane.lane: lane.reasons for lane in verdict.lanes if lane.reasons},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--reads", action="store_true")
    parser.add_argument("--engine", choices=("spark", "duckdb"), default="spark")
    parser.add_argument("--work-dir", type=Path, help="where to keep the run directories; default: a temporary one")
    parser.add_argument("--verify", type=Path, metavar="DIR", help="verify one, in this process")
    arguments = parser.parse_args()
    if arguments.verify:
        print(json.dumps(verified(arguments.verify, arguments.engine)))
        return
    good = True
    expected = Verdict.VIOLATION if arguments.planted else Verdict.CONFORMS
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as scratch:
        for transactions in arguments.transactions:
            shown = [name for name in ("planted", "reads") if getattr(arguments, name)]
            name = "-".join(["transactions", str(transactions), *shown])
            run_dir = (arguments.work_dir or Path(scratch)) / name
            if not (run_dir / EXPECTED).exists():
                make(run_dir, transactions, plant=arguments.planted, reads=arguments.reads)
            found = measured_process([__file__, "--verify", str(run_dir), "--engine", arguments.engine])
            print(json.dumps({"transactions": transactions, **found}), flush=True)
            good &= found["right"] and found["verdict"] == expected
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
