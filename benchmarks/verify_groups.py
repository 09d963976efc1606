"""The cost of consumer groups in verification: the same history with and without them, in alternation.

usage: verify_groups.py [--records 1000000] [--rounds 5] [--work-dir DIR]

Makes a run directory of four lanes, two of them transactional, each of which a group of three members reads beside the
other consumers: four generations, a commit after every 500 records of a partition. A second directory has the same
produced/, consumed/, log/ and replicas/, but says nothing of the groups. One process verifies both in turn, after two
rounds that do not count. The last line is one JSON object: {"ratio": …, "with": …, "without": …, "cpu_ratio": …}, the
ratios being medians of the rounds' ratios, in seconds and in CPU seconds. Exits with 1 if a verdict is not `conforms`
or the ratio of CPU seconds is above 1.2.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from generated_histories import (
    LaneShape,
    LaneTables,
    TransactionsShape,
    lane_tables,
    transaction_tables,
    with_group,
    write_run,
)
from verify_sizes import cpu_seconds

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.verification import spark_session, verify

MOST = 1.2
UNCOUNTED = 2


def lanes(records: int) -> Iterator[LaneTables]:
    """Four lanes of as many records each."""
    for number in range(2):
        plain = LaneShape(lane=f"plain-{number}", records=records // 4, partitions=6, replicas=3)
        yield with_group(lane_tables(plain))
        shape = TransactionsShape(lane=f"transactions-{number}", transactions=records // 4 // 10)
        yield with_group(transaction_tables(shape))


def without_groups(run_dir: Path, folder: Path) -> Path:
    """The same run directory, in which nobody says that its consumers are groups."""
    shutil.copytree(run_dir, folder, ignore=shutil.ignore_patterns("commits", "groups.json"), copy_function=_link)
    document = json.loads((folder / "lanes.json").read_text())
    document["lanes"] = [{key: value for key, value in lane.items() if key != "group"} for lane in document["lanes"]]
    (folder / "lanes.json").unlink()
    (folder / "lanes.json").write_text(json.dumps(document))
    for file in (folder / "assignments").glob("plain-*"):
        file.unlink()
    return folder


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work-dir", type=Path, help="where to make the run directories; default: a temporary one")
    arguments = parser.parse_args()
    spark = spark_session(rows=2**31)
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    spent: dict[str, list[float]] = {"with": [], "without": []}
    conforms = True
    with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="kafka-chaos-groups-") as scratch:
        whole = write_run(Path(scratch) / "with", lanes(arguments.records))
        runs = {"with": whole, "without": without_groups(whole, Path(scratch) / "without")}
        for number in range(UNCOUNTED + arguments.rounds):
            for name, run_dir in runs.items():
                before = cpu_seconds()
                verdict = verify(run_dir, spark=spark)
                taken, cpu = verdict.seconds, cpu_seconds() - before
                conforms &= verdict.verdict == Verdict.CONFORMS
                if number >= UNCOUNTED:
                    seconds[name].append(taken)
                    spent[name].append(cpu)
                print(f"round {number - UNCOUNTED + 1} {name} groups: {taken:.1f} s, {cpu:.1f} CPU s", flush=True)

    def ratio(of: dict[str, list[float]]) -> float:
        return round(statistics.median(a / b for a, b in zip(of["with"], of["without"], strict=True)), 2)

    figures = {name: round(statistics.median(taken), 1) for name, taken in seconds.items()}
    print(json.dumps({"ratio": ratio(seconds), **figures, "cpu_ratio": ratio(spent), "conforms": conforms}))
    raise SystemExit(not conforms or ratio(spent) > MOST)


if __name__ == "__main__":
    main()
