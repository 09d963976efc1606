"""Mutation testing: how many small changes of the rules do the fast tests notice?

    python benchmarks/mutation.py [--lowest PERCENT] [--processes N] [--sample N]

mutmut changes one operator, value or argument at a time, in the rules that need no Spark: what the evidence is worth
and the verdict (verification/judging), what is read from a run's small files (verification/inputs), the engine in SQL
(verification/engines) and the protocol of the model (reference_model/protocol). For each change it runs the tests that
reach it. Prints the score per package, and every change that survived or that no test reached. Exits with 1 if less
than PERCENT of the changes were noticed. All changes take hours; `--sample` makes N of them, chosen by the hash of
their names, and says within which bounds the whole score is with 95 %.

The tests are those of `make test-unit` for these packages, without the model's searches: they would take minutes for
each change of a rule. The rules in Spark's words (verification/detection) are not
changed: each change would need a Spark session of its own. There the oracle is the control.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / "runs" / "mutation"
CHANGED = (
    "verification/judging/*",
    "verification/engines/*",
    "verification/inputs/run_directory.py",
    "verification/inputs/tables.py",
    "verification/inputs/documents/*",
    "reference_model/protocol/*",
)
TESTS = ("tests/verification", "tests/reference_model/protocol")
READ_BY_TESTS = ("benchmarks", "contract", "docs", "experiments")
NOTICED = {"killed", "timeout", "segfault", "suspicious"}
RESULT = re.compile(r"^\s*kafka_chaos\.(?P<module>[\w.]+)\.x\S*__mutmut_\d+: (?P<status>[a-z ]+)$")


def main() -> int:
    """Run mutmut and print its score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lowest", type=float, default=0.0, metavar="PERCENT")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--sample", type=int, default=0, metavar="N")
    options = parser.parse_args()
    _stage()
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    mutmut = [sys.executable, "-m", "mutmut"]
    run = [*mutmut, "run", "--max-children", str(options.processes)]

    def results() -> list[str]:
        listed = [*mutmut, "results", "--all", "true"]
        done = subprocess.run(listed, cwd=STAGE, env=environment, capture_output=True, text=True, check=True)
        return [line.strip() for line in done.stdout.splitlines() if RESULT.match(line)]

    with (STAGE / "mutmut.log").open("w") as log:
        chosen: list[str] = []
        if options.sample:
            # It makes all changes before it finds that none has this name.
            subprocess.run([*run, "none"], cwd=STAGE, env=environment, stdout=log, stderr=log, check=False)
            names = sorted(
                (line.partition(":")[0] for line in results()), key=lambda name: sha256(name.encode()).digest()
            )
            chosen = names[: options.sample]
        if subprocess.run([*run, *chosen], cwd=STAGE, env=environment, stdout=log, stderr=log, check=False).returncode:
            print(f"mutmut failed: see {log.name}", file=sys.stderr)
            return 70
    found = [line for line in results() if not chosen or line.partition(":")[0] in chosen]
    return _report(found, options.lowest)


def _stage() -> None:
    """A copy of the project in which the links of kafka_chaos/ are folders, so that mutmut finds modules by path."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    leave_out = shutil.ignore_patterns("__pycache__", ".*", "_site")
    for name in ("kafka_chaos", "tests", *READ_BY_TESTS):
        shutil.copytree(ROOT / name, STAGE / name, ignore=leave_out)
    changed = ", ".join(f'"kafka_chaos/{pattern}"' for pattern in CHANGED)
    tests = sorted(str(path.relative_to(STAGE)) for pattern in TESTS for path in STAGE.glob(pattern))
    settings = f"""

[tool.mutmut]
source_paths = ["kafka_chaos"]
only_mutate = [{changed}]
also_copy = {list(READ_BY_TESTS)!r}
pytest_add_cli_args_test_selection = {tests!r}
pytest_add_cli_args = ["-m", "not slow and not cluster and not spark and not browser", "-p", "no:cacheprovider"]
timeout_multiplier = 3
"""
    (STAGE / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + settings)


def _report(results: list[str], lowest: float) -> int:
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    missed = []
    for line in results:
        found = RESULT.match(line)
        assert found is not None
        package = ".".join(found["module"].split(".")[:2])
        packages[package][found["status"]] += 1
        if found["status"] not in NOTICED:
            missed.append(line)
    total = sum(packages.values(), Counter[str]())
    print(*missed, sep="\n")
    print("| package | changes | noticed | survived | reached by no test | score | 95 % |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, counts in [*sorted(packages.items()), ("all", total)]:
        noticed = sum(counts[status] for status in NOTICED)
        columns = (
            counts.total(),
            noticed,
            counts["survived"],
            counts["no tests"],
            f"{_percent(counts):.0f} %",
            f"± {_bound(counts):.1f}",
        )
        print(f"| {name} | {' | '.join(map(str, columns))} |")
    print(f"What a change was: cd {STAGE} && python -m mutmut show NAME")
    return int(not total or _percent(total) < lowest)


def _percent(counts: Counter[str]) -> float:
    return 100 * sum(counts[status] for status in NOTICED) / max(1, counts.total())


def _bound(counts: Counter[str]) -> float:
    """Of a sample: half the width of the interval of its percentage, as for a normal distribution."""
    share = _percent(counts) / 100
    return 196 * (share * (1 - share) / max(1, counts.total())) ** 0.5


if __name__ == "__main__":
    sys.exit(main())
