"""Whether the model explains what real runs observed, and notices an impossible event that is planted in them.

    .venv/bin/python benchmarks/observed_traces.py RUN_DIR…

Each partition of each run whose brokers' logs can be judged is a trace. Each is judged as it is, and with one of four
impossible events: a leader's epoch goes back, an epoch has two leaders, a follower truncates its log below the high
watermark where no leader's epoch starts, or the log of a member of the ISR ends below it. The last line is JSON: runs,
true traces and how many were not explained, and for each kind of event how many were planted and noticed. Exits with 1
if a true trace was not explained or a planted event not noticed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from kafka_chaos.contract.events import LogTruncated
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory, open_run
from kafka_chaos.verification.judging.this_run import load_of, unobservable
from kafka_chaos.verification.judging.unexplained import Observed, observed_of, unexplained

Plant = Callable[[RunDirectory, Lane, int, Observed], RunDirectory | None]


def epoch_back(run: RunDirectory, lane: Lane, partition: int, seen: Observed) -> RunDirectory | None:
    """Who led last leads once more, in an epoch in which it had led before."""
    last = seen.elections[-1]
    former = [won for won in seen.elections if won.broker == last.broker and won.leader_epoch < last.leader_epoch]
    if not former:
        return None
    return _with(run, lane, partition, replace(former[0], ts_ns=last.ts_ns + 10**9, start_offset=last.start_offset))


def two_leaders(run: RunDirectory, lane: Lane, partition: int, seen: Observed) -> RunDirectory | None:
    """Another broker leads in the last epoch, too."""
    last = seen.elections[-1]
    other = last.broker % 3 + 1
    return _with(run, lane, partition, replace(last, ts_ns=last.ts_ns + 10**9, broker=other))


def truncation(run: RunDirectory, lane: Lane, partition: int, seen: Observed) -> RunDirectory | None:
    """A follower truncates its log to half of what is committed."""
    mark = max((one.high_watermark for one in seen.marks), default=0)
    starts = {won.start_offset for won in seen.elections}
    if not seen.all_elections or mark < 2 or mark // 2 in starts:
        return None
    follower = seen.elections[-1].broker % 3 + 1
    cut = {"broker": follower, "lane": lane.lane, "partition": partition, "offset": mark // 2, "log_end": mark}
    return _with(run, lane, partition, LogTruncated(ts_ns=max(one.ts_ns for one in seen.marks), **cut))


def short_member(run: RunDirectory, lane: Lane, partition: int, seen: Observed) -> RunDirectory | None:
    """The log of a member of the ISR ends at half of what is committed."""
    mark = max((one.high_watermark for one in seen.marks), default=0)
    place = (lane.lane, partition)
    ends = run.checkpoints.log_ends.get(place, {})
    members = [broker for broker in (seen.states[-1].isr if seen.states else ()) if ends.get(broker) is not None]
    if not members or mark < 2:
        return None
    ends = {**run.checkpoints.log_ends, place: {**ends, min(members): mark // 2}}
    return replace(run, checkpoints=replace(run.checkpoints, log_ends=ends))


PLANTS: tuple[Plant, ...] = (epoch_back, two_leaders, truncation, short_member)


def _with(run: RunDirectory, lane: Lane, partition: int, event: object) -> RunDirectory:
    place = (lane.lane, partition)
    changes = {**run.events.changes, place: [*run.events.changes.get(place, ()), event]}
    return replace(run, events=replace(run.events, changes=changes))


def traces(run: RunDirectory) -> Iterator[tuple[Lane, int, Observed]]:
    """The partitions that can be judged, with what was observed of each."""
    for lane in run.lanes:
        if load_of(run, lane) is None or unobservable(run, lane) is not None:
            continue
        for partition in range(lane.partitions):
            seen = observed_of(run, lane, partition)
            if seen.elections:
                yield lane, partition, seen


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN_DIR")
    counts: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    for path in parser.parse_args().runs:
        run = open_run(path)
        counts["runs"] += 1
        for lane, partition, seen in traces(run):
            counts["true"] += 1
            problems = unexplained(run, lane)
            counts["not explained"] += bool(problems)
            for problem in problems:
                print(f"{path}: {lane.lane}: {problem}")
            possible = [(plant, found) for plant in PLANTS if (found := plant(run, lane, partition, seen)) is not None]
            for plant, found in possible:
                planted[plant.__name__] += 1
                noticed[plant.__name__] += len(unexplained(found, lane)) > len(problems)
    print(json.dumps({**counts, "planted": dict(planted), "noticed": dict(noticed)}))
    raise SystemExit(bool(counts["not explained"]) or planted != +noticed)


if __name__ == "__main__":
    main()
