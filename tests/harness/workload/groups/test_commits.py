"""Since when a client may have committed by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_chaos.harness.workload.groups import commits as commits_module
from kafka_chaos.harness.workload.groups.commits import Positions

SECOND = 1_000_000_000


class Clock:
    """Shows whole seconds, one later at each look."""

    def __init__(self) -> None:
        self.seconds = 0

    def monotonic_ns(self) -> int:
        self.seconds += 1
        return self.seconds * SECOND


@pytest.fixture
def positions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Positions]:
    """Of a client that begins at second 1."""
    monkeypatch.setattr(commits_module, "time", Clock())
    return Positions()


def since(positions: Positions, offsets: dict[int, int]) -> int:
    return positions.since_ns(offsets) // SECOND


def test_an_offset_may_be_committed_since_the_poll_before_it_was_reached(positions: Positions) -> None:
    positions.reaches({0: 5})
    positions.reaches({0: 8, 1: 3})
    positions.reaches({0: 8, 1: 4})
    assert [since(positions, {0: offset}) for offset in (4, 5, 6, 8)] == [1, 1, 2, 2]
    assert since(positions, {0: 5, 1: 4}) == 3


def test_of_what_was_never_reached_only_the_clients_begin_is_known(positions: Positions) -> None:
    positions.reaches({0: 5})
    positions.reaches({0: 8})
    assert since(positions, {0: 9}) == since(positions, {7: 1}) == 1


def test_a_position_that_is_set_back_may_have_been_reached_before(positions: Positions) -> None:
    positions.reaches({1: 1})
    positions.reaches({0: 5})
    positions.reaches({0: 8})
    positions.reaches({0: 2})
    assert since(positions, {0: 2}) == since(positions, {0: 1}) == 2


def test_polls_shortly_after_one_another_are_kept_together(
    positions: Positions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_module, "_TOGETHER_NS", 60 * SECOND)
    for offset in range(1, 40):
        positions.reaches({0: offset})
    assert since(positions, {0: 39}) == 1
    assert len(positions._reached[0]) == 1
