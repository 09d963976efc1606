"""Consumers that come and go: who reads when, under which names; none of them hides what another one missed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ReaderStarted
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.experiment.lives import LifeSpec
from kafka_chaos.harness.workload.clients.following import Follower
from kafka_chaos.harness.workload.clients.lives import FurtherConsumers
from kafka_chaos.harness.workload.settings import LoadSettings
from tests.harness.workload.loads import load_of

LANE = LaneSpec.model_validate({"lane": "a", "lives": [{"at": 0, "role": "consumer"}]})


class Reader(Follower):
    """Is given what a test gives it."""

    def __init__(self, load: LoadSettings, number: int, lane: LaneSpec = LANE) -> None:
        self.problems: list[str] = []
        self.ended_by = ""
        self.made = time.monotonic()
        self.process = SimpleNamespace(ended_by_fault=False, is_down=False)
        super().__init__(lane, load, partitions=2, number=number)
        self.begin_assignment()

    def given(self, partition: int, *offsets: int) -> None:
        self._note_read([partition] * len(offsets), offsets)

    def may_read_more(self) -> bool:
        return True

    def note_problem(self, problem: str) -> None:
        self.problems.append(problem)

    def leave(self) -> None:
        assert self.ended_by == ""
        self.ended_by = "left"

    def close(self) -> None:
        assert self.ended_by == ""
        self.ended_by = "killed"


@pytest.fixture
def names() -> list[str]:
    """The names under which consumers that come and go have begun to read."""
    return []


@pytest.fixture
def load(tmp_path: Path, names: list[str]) -> Iterator[LoadSettings]:
    def note(event: object) -> None:
        if isinstance(event, ReaderStarted):
            names.append(event.consumer)

    load = load_of(tmp_path, emit=note)
    yield load
    load.tables.close()


@contextmanager
def living(
    load: LoadSettings, *lives: LifeSpec, stops_with: int = 0
) -> Iterator[tuple[FurtherConsumers, list[Reader]]]:
    made: list[Reader] = []

    def connect(number: int, slot: int) -> Reader:
        if number == stops_with:
            consumers.stop()
        made.append(Reader(load, number))
        return made[-1]

    consumers = FurtherConsumers(connect, LANE, load, lives)
    consumers.begin_load()
    try:
        yield consumers, made
    finally:
        consumers.close()


def test_a_consumer_starts_late_is_killed_and_another_reads_under_a_new_name(
    load: LoadSettings, names: list[str]
) -> None:
    life = LifeSpec(at=0.2, lasts=0.5, ends="kill", returns=0.1)
    with living(load, life, stops_with=3) as (consumers, made):
        assert made == []
        began = load.began = time.monotonic()
        wait_until(lambda: len(made) == 3, "the third of that place", timeout=10)
        (last,) = consumers.living_consumers()
        assert last is made[-1]
    assert made[0].made - began >= 0.2
    assert made[1].made - began >= 0.5
    assert [one.ended_by for one in made] == ["killed"] * 3, "the last one with its lane"
    assert names == [f"a-consumer-{number}-1" for number in (1, 2, 3)]


def test_one_that_leaves_has_no_successor_unless_it_returns(load: LoadSettings) -> None:
    load.began = time.monotonic()
    with living(load, LifeSpec(at=0.0, lasts=0.5), LifeSpec(at=0.0)) as (consumers, made):
        wait_until(lambda: any(one.ended_by for one in made), "the first one to leave", timeout=10)
        assert (len(made), sorted(one.ended_by for one in made)) == (2, ["", "left"])
        consumers.stop()
        assert [one.ended_by for one in consumers.living_consumers()] == [""]  # type: ignore[attr-defined]


def test_one_that_a_fault_ends_has_a_successor_once_that_is_over(load: LoadSettings) -> None:
    load.began = time.monotonic()
    with living(load, LifeSpec(at=0.0)) as (consumers, made):
        wait_until(lambda: made, "it to start", timeout=10)
        (slot,) = consumers.slots
        made[0].process.ended_by_fault = made[0].process.is_down = True
        wait_until(lambda: made[0].ended_by == "killed", "its end", timeout=10)
        assert slot.client is None
        assert len(made) == 1
        made[0].process.is_down = False
        wait_until(lambda: len(made) == 2, "a successor", timeout=10)


def test_what_a_start_raises_is_raised_where_the_load_ends(load: LoadSettings) -> None:
    load.began = 0.0
    consumers = FurtherConsumers(Mock(side_effect=OSError("no such program")), LANE, load, [LifeSpec(at=0.0)])
    consumers.begin_load()
    with pytest.raises(OSError, match="no such program"):
        consumers.living_consumers()
    consumers.close()


def test_each_reads_every_partition_from_its_start(load: LoadSettings, names: list[str]) -> None:
    reader = Reader(load, 1)
    reader.given(0, 0, 1)
    reader.given(1, 3, 4)
    reader.given(1, 5)
    assert reader.problems == ["began to read partition 1 at offset 3 instead of 0"]
    reader.begin_assignment()
    reader.given(1, 0)
    assert names == ["a-consumer-1-1", "a-consumer-1-2"]
    assert len(reader.problems) == 1
    of_compacted = Reader(load, 2, LANE.model_copy(update={"cleanup_policy": "compact"}))
    of_compacted.given(0, 7)
    assert of_compacted.problems == []
