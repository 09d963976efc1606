"""Whether DuckDB, the oracle of the tests and, with `--spark`, Spark agree on random histories of every family.

usage: random_agreement.py [--spark] [--histories 2000] [--together 500] [--seed 0] [--families plain transactions …]

They agree if facts, findings and verdicts are the same, row by row. Prints for each run directory of so many histories
`--together` what was found, and ends with an AssertionError where anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kafka_chaos.verification import spark_session  # noqa: E402
from tests.verification.conftest import forbid_everything  # noqa: E402
from tests.verification.samples.engines import counted, verified_by_both, verified_by_duckdb  # noqa: E402
from tests.verification.samples.random_runs import FAMILIES  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--histories", type=int, default=2000, metavar="N", help="of each family")
    parser.add_argument("--together", type=int, default=500, metavar="N", help="histories in a run directory")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options = parser.parse_args()
    spark = spark_session(rows=0) if options.spark else None
    with pytest.MonkeyPatch.context() as patch:
        forbid_everything(patch)
        for family in options.families:
            random, found, since = Random(f"{family}/{options.seed}"), Counter[str](), time.monotonic()
            for first in range(0, options.histories, options.together):
                count = min(options.together, options.histories - first)
                with tempfile.TemporaryDirectory(prefix="kafka-chaos-agreement-") as scratch:
                    run_dir = FAMILIES[family](Path(scratch) / "run", random, count)
                    verdict = verified_by_both(run_dir, spark=spark) if spark else verified_by_duckdb(run_dir)
                found += counted(verdict)
                said = ", ".join(f"{name} {number}" for name, number in sorted(found.items()))
                print(f"{family}: {first + count} histories, {time.monotonic() - since:.0f} s: {said}", flush=True)


if __name__ == "__main__":
    main()
