"""Cases of tests as the lanes of one run: a run takes most of a second to verify, however many lanes it has."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

from kafka_chaos.contract.columns import TABLES
from tests.verification.samples.run_dirs import Rows, prediction

Build = TypeVar("Build", bound=Callable[..., Rows])
_OF_THE_RUN = {"broker_session_ended", "controller_changed", "harness_paused", "run_started"}
"""Events that belong to no lane."""


def together(histories: Mapping[str, Rows]) -> Rows:
    """One run of several. Each history has one lane, which gets the history's name, as do its phases, faults, groups:
    no lane is judged by what happened to another. What belongs to the whole run is the same in all histories."""
    whole = [
        (rows.log is None, [event for event in rows.events or () if event["type"] in _OF_THE_RUN])
        for rows in histories.values()
    ]
    assert all(of_run == whole[0] for of_run in whole), "histories that differ in what belongs to the run"
    run = Rows(lanes=[])
    events = [event | ({"lanes": [*histories]} if "lanes" in event else {}) for event in whole[0][1]]
    timings, predicted, marks = dict[str, Any](), dict[str, Any](), dict[str, dict[str, Any]]()
    for name, rows in histories.items():
        (lane,) = rows.lanes
        run.lanes.append({**lane, "lane": name})
        of_lane = (event for event in rows.events or () if event["type"] not in _OF_THE_RUN)
        events += [_renamed(event, lane["lane"], name) for event in of_lane]
        timings |= {name: rows.timings[lane["lane"]]} if rows.timings else {}
        predicted |= {name: rows.prediction["lanes"][lane["lane"]]} if rows.prediction else {}
        for broker, places in (rows.checkpoints or {"brokers": {}})["brokers"].items():
            of_broker = {f"{name}/{place.rpartition('/')[2]}": mark for place, mark in places.items()}
            marks.setdefault(broker, {}).update(of_broker)
    for table in TABLES:
        tables = {name: getattr(rows, table) for name, rows in histories.items()}
        of_all = [
            _renamed(row, rows.lanes[0]["lane"], name) for name, rows in histories.items() for row in tables[name] or ()
        ]
        setattr(run, table, of_all if any(rows is not None for rows in tables.values()) else None)
    run.events = sorted(events, key=lambda event: event["ts_ns"]) or None
    run.timings = timings or None
    run.checkpoints = {"brokers": marks} if marks else None
    if predicted:
        run.prediction = prediction(histories)
        run.prediction["lanes"] |= predicted
    return run


def _renamed(row: Mapping[str, Any], lane: str, name: str) -> dict[str, Any]:
    """A row or an event of a lane as one of the lane that has this name instead."""
    named: dict[str, Any] = {"lane": name, "lanes": [name], "phase": name}
    if "fault_id" in row:
        named["fault_id"] = f"{name}-{row['fault_id']}"
    for column in ("group", "source_group"):
        if row.get(column):
            named[column] = name + row[column].removeprefix(lane)
    return {key: named.get(key, value) for key, value in row.items()}


class Together:
    """Histories of a module's tests that are verified as one run, once the first test asks for its lane.

    `is_all_forbidden`: every anomaly is forbidden (`everything_forbidden`), also those that no prediction.json names.
    """

    def __init__(self, *, is_all_forbidden: bool = False) -> None:
        self.is_all_forbidden = is_all_forbidden
        self._histories: dict[str, Callable[[], Rows]] = {}
        self._params: dict[Callable[..., Rows], list[ParameterSet]] = defaultdict(list)

    def cases(self, *cases: Any) -> Callable[[Build], Build]:
        """Decorate what builds a history: of all but the last value of each case, or of none if a case is no tuple."""

        def remember(build: Build) -> Build:
            for case in cases:
                *values, expected = case if isinstance(case, tuple) else (case,)
                name = f"{build.__name__}-{len(self._histories)}"
                self._histories[name] = partial(build, *values)
                said = "-".join(getattr(value, "__name__", str(value)) for value in (build, *values))
                self._params[build].append(pytest.param(name, expected, id=said))
            return build

        return remember

    def each(self, *builds: Callable[..., Rows], but: Collection[Callable[..., Rows]] = ()) -> pytest.MarkDecorator:
        """Run a test for each case of these, or of all `but` some: with the verdict on its `lane` and its last value,
        what is `expected`.
        """
        params = [param for build in builds or self._params if build not in but for param in self._params[build]]
        return pytest.mark.parametrize(("lane", "expected"), params, indirect=["lane"])

    @property
    def run(self) -> Rows:
        run = together({name: build() for name, build in self._histories.items()})
        if self.is_all_forbidden:
            run.prediction = {"format_version": 1, "lanes": {}}
        return run
