"""Whether run directories keep the verdicts that they got when they were made.

    benchmarks/verdicts_kept.py RUN_DIR…

DuckDB verifies each once more, and every lane's verdict is compared with that in verdict.json. Prints each lane whose
verdict is another now, and at the end how many runs and lanes have which verdict. A verdict may become another by
purpose: then verdict-changes.toml says why. Exits with 1 if a verdict is another and no line says why, or if a run is
refused now.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections import Counter
from pathlib import Path

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.verification import verify

CHANGES = Path(__file__).with_name("verdict-changes.toml")


def reason(run: Path, lane: str, then: str | None, now: str | None) -> str:
    """Why a lane's verdict became another, as verdict-changes.toml says; empty if it does not."""
    change = {"lane": lane, "then": then, "now": now}
    for known in tomllib.loads(CHANGES.read_text()).get("change", []):
        is_run = f"-{known['run']}-" in run.name if "run" in known else True
        if is_run and all(known.get(key, value) == value for key, value in change.items()):
            return str(known["why"])
    return ""


def verdicts(run: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The verdicts of a run's lanes, then and now; raises `KafkaChaosError`."""
    then = json.loads((run / "verdict.json").read_text())
    now = verify(run, engine="duckdb", write=False)
    return {lane["lane"]: lane["verdict"] for lane in then["lanes"]}, {lane.lane: lane.verdict for lane in now.lanes}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN_DIR")
    runs, lanes, others = 0, Counter[str](), 0
    for run in parser.parse_args().runs:
        try:
            then, now = verdicts(run)
        except KafkaChaosError as error:
            print(f"{run}: {error}")
            others += 1
            continue
        runs += 1
        lanes.update(now.values())
        for lane in sorted(then.keys() | now.keys()):
            if then.get(lane) != now.get(lane):
                why = reason(run, lane, then.get(lane), now.get(lane))
                print(f"{run}: {lane}: {then.get(lane)} then, {now.get(lane)} now: {why or 'no line says why'}")
                others += not why
    print(json.dumps({"runs": runs, "lanes": dict(lanes), "others": others}))
    raise SystemExit(others > 0)


if __name__ == "__main__":
    main()
