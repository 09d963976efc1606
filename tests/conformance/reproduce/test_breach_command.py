"""Which breach is played next, and what a play adds to the results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.conformance.reproduce import plays as module
from kafka_chaos.conformance.reproduce.breaches.player import PlayedBreach
from kafka_chaos.conformance.reproduce.breaches.stories import STORIES, BreachStory
from kafka_chaos.conformance.reproduce.results import BreachResult, Results, key_of, load

KAFKA = "Kafka 3.9.1 with ZooKeeper"
LEFT = "step 3: gave up"


class NoMorePlays(Exception):
    """Ends a series without an end."""


@dataclass
class Plays:
    """What was played; the first is left, and after `most` of them the series ends."""

    most: int
    keys: list[tuple[BreachStory, str]]

    def player(self, story: BreachStory, version: str, *_: Any) -> Plays:
        if len(self.keys) == self.most:
            raise NoMorePlays
        self.keys.append((story, version))
        return self

    def play(self) -> PlayedBreach:
        return PlayedBreach(*self.keys[-1], Path("run"), left=LEFT if len(self.keys) == 1 else "")


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> Plays:
    found = Plays(most=100, keys=[])
    monkeypatch.setattr(module, "BreachPlayer", found.player)
    return found


def play(file: Path, minutes: float | None) -> int:
    return module.play_breaches(file, KAFKA, module.How(file.parent, minutes=minutes, quiet=True))


def test_without_minutes_each_is_played_once_and_one_that_is_left_makes_exit_code_2(
    plays: Plays, tmp_path: Path
) -> None:
    file = tmp_path / "reproduced.json"

    assert play(file, minutes=None) == 2

    assert plays.keys == [(story, version) for story in STORIES for version in story.versions]
    counts = [(one.played, one.shown, one.left) for one in load(file, KAFKA).breaches.values()]
    assert counts == [(1, 0, LEFT)] + [(1, 1, None)] * (len(counts) - 1)


def test_with_minutes_the_breaches_come_up_equally_often_and_the_versions_of_each(plays: Plays, tmp_path: Path) -> None:
    plays.most = 6 * len(STORIES)

    with pytest.raises(NoMorePlays):
        play(tmp_path / "reproduced.json", minutes=10)

    for story in STORIES:
        assert [plays.keys.count((story, version)) for version in story.versions] == [6 // len(story.versions)] * len(
            story.versions
        )


def test_what_was_played_before_counts(plays: Plays, tmp_path: Path) -> None:
    file = tmp_path / "reproduced.json"
    results = Results(KAFKA)
    least = next(story for story in STORIES if len(story.versions) > 1)
    for key in results.breaches:
        results.breaches[key] = BreachResult(*key, played=3, shown=3)
    for version in least.versions:
        results.breaches[key_of(least, version)].played = 0
    results.breaches[key_of(least, least.versions[0])].played = 1
    results.save(file)
    plays.most = 1

    with pytest.raises(NoMorePlays):
        play(file, minutes=10)

    assert plays.keys == [(least, least.versions[1])]
    assert load(file, KAFKA).breaches[key_of(least, least.versions[1])].played == 1


def test_without_time_nothing_is_played(plays: Plays, tmp_path: Path) -> None:
    assert play(tmp_path / "reproduced.json", minutes=0) == 0

    assert plays.keys == []
