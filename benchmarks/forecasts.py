"""How good forecasts are: each run of a record is compared with what all runs before it say.

    .venv/bin/python benchmarks/forecasts.py [RECORD] [--first 20]

RECORD is a record of runs, that of this version by default; its first runs are only learnt from. The last line is JSON:
lanes, forecasts, their Brier score, the ranges of records and gaps that were forecast, and how many held. Exits with 1
if the Brier score is over 0.08.
"""

from __future__ import annotations

import argparse
import json
from itertools import groupby
from pathlib import Path

from kafka_chaos.reference_model.forecast.forecasting import Score
from kafka_chaos.reference_model.forecast.lane_runs import read_record, shipped

AIM = 0.08


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("record", type=Path, nargs="?")
    parser.add_argument("--first", type=int, default=20, help="how many runs are only learnt from")
    arguments = parser.parse_args()
    record = shipped() if arguments.record is None else read_record(arguments.record)
    score = Score()
    known = []
    for number, (_, lanes) in enumerate(groupby(record, key=lambda lane: lane.run)):
        of_run = list(lanes)
        for lane in of_run if number >= arguments.first else ():
            score.add(known, lane)
        known += of_run
    print(json.dumps(score.to_json()))
    raise SystemExit(score.brier is not None and score.brier > AIM)


if __name__ == "__main__":
    main()
