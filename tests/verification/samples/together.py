"""Cases of tests as the lanes of one run: a run takes most of a second to verify, however many lanes it has."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

from kafka_chaos.contract.columns import TABLES
from tests.verification.samples.run_dirs import Rows

Build = TypeVar("Build", bound=Callable[..., Rows])
_OF_ALL_LANES = {"broker_session_ended", "controller_changed", "harness_paused", "run_started"}
"""Events that belong to no lane: a history that has one needs a run of its own."""


def together(histories: Mapping[str, Rows]) -> Rows:
    """One run of several. Each history has one lane, which gets the history's name, as do its phases, faults, groups:
    no lane is judged by what happened to another."""
    run = Rows(lanes=[])
    assert len({rows.log is None for rows in histories.values()}) == 1, "a run has a log of all lanes, or of none"
    events, timings, marks = list[dict[str, Any]](), dict[str, Any](), dict[str, dict[str, Any]]()
    for name, rows in histories.items():
        (lane,) = rows.lanes
        run.lanes.append({**lane, "lane": name})
        for event in rows.events or ():
            assert event["type"] not in _OF_ALL_LANES, f"{name} needs a run of its own"
            events.append(_renamed(event, lane["lane"], name))
        timings |= {name: rows.timings[lane["lane"]]} if rows.timings else {}
        for broker, places in (rows.checkpoints or {"brokers": {}})["brokers"].items():
            of_broker = {f"{name}/{place.rpartition('/')[2]}": mark for place, mark in places.items()}
            marks.setdefault(broker, {}).update(of_broker)
    for table in TABLES:
        tables = {name: getattr(rows, table) for name, rows in histories.items()}
        of_all = [
            _renamed(row, rows.lanes[0]["lane"], name) for name, rows in histories.items() for row in tables[name] or ()
        ]
        setattr(run, table, of_all if any(of_lane is not None for of_lane in tables.values()) else None)
    run.events = sorted(events, key=lambda event: event["ts_ns"]) or None
    run.timings = timings or None
    run.checkpoints = {"brokers": marks} if marks else None
    return run


def _renamed(row: Mapping[str, Any], lane: str, name: str) -> dict[str, Any]:
    """A row or an event of a lane as one of the lane that has this name instead."""
    named: dict[str, Any] = {"lane": name, "lanes": [name], "phase": name}
    if "fault_id" in row:
        named["fault_id"] = f"{name}-{row['fault_id']}"
    if row.get("group"):
        named["group"] = name + row["group"].removeprefix(lane)
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
