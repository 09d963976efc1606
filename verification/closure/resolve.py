"""References of a run that do not resolve, by lane: the relations of `relations.py`, evaluated where its rows fit."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_chaos.verification.closure.relations import doubt
from kafka_chaos.verification.inputs.manifest import not_as_written
from kafka_chaos.verification.inputs.run_directory import Doubt, RunDirectory

if TYPE_CHECKING:
    from kafka_chaos.verification.tables.evidence import Frames
    from kafka_chaos.verification.tables.scope import Related


def resolved(run: RunDirectory, frames: Frames | None = None, related: Related | None = None) -> RunDirectory:
    """The run with its doubts.

    `frames`: its tables in Spark, which adds up what relations ask of a larger run; `related`: that, if it is known.
    """
    doubts: defaultdict[str, list[Doubt]] = defaultdict(list)
    of_files = [] if run.path is None else not_as_written(run.path)
    if run.is_planned and run.events.faults is None:
        of_files.append("events.jsonl is missing, though experiment.yaml is there")
    for lane in run.lanes:
        doubts[lane.lane] += map(Doubt, of_files)
    for name, topic in _of_one_topic(run):
        doubts[name].append(Doubt(f"lanes.json: topic {topic} is that of another lane, too"))
    for number, name, n, place in sorted(_unresolved(run, frames, related)):
        doubts[name].append(doubt(number, n, place))
    return replace(run, doubts={lane: found for lane, found in doubts.items() if found})


def _unresolved(run: RunDirectory, frames: Frames | None, related: Related | None) -> list[tuple[int, str, int, str]]:
    if frames is None or run.fits_into_memory:
        from kafka_chaos.verification.closure.small import rows_of_relations

        return rows_of_relations(run)
    from kafka_chaos.verification.closure.large import rows_of_frames

    return rows_of_frames(run, frames, related)


def _of_one_topic(run: RunDirectory) -> list[tuple[str, str]]:
    """The lanes whose topic another lane has, too, with its name: the log would hold the records of both."""
    topics = Counter(lane.topic or lane.lane for lane in run.lanes)
    return [(lane.lane, topic) for lane in run.lanes if topics[topic := lane.topic or lane.lane] > 1]
