"""What `kafka-chaos reproduce` refuses, what it prints without a cluster, and which breaches it plays next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.conformance.reproduce import command, plays
from kafka_chaos.conformance.reproduce.breaches.player import PlayedBreach
from kafka_chaos.conformance.reproduce.breaches.stories import STORIES, BreachStory
from kafka_chaos.conformance.reproduce.claims import Claim
from kafka_chaos.conformance.reproduce.playing.player import Shown
from kafka_chaos.conformance.reproduce.plays import How
from kafka_chaos.conformance.reproduce.results import BreachResult, Results, key_of, load
from kafka_chaos.contract.anomalies import Verdict
from tests.commands import ended

DUPLICATE = ("--acks", "1", "--faults", "kill", "--anomaly", "duplicate")

DIVERGENCE = ("--protocol", "kip101", "--invariant", "followers_agree")


@pytest.fixture(autouse=True)
def links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_require_links", lambda: None)


def reproduce(*arguments: object) -> Any:
    return ended(command.reproduce_command, *arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "expected one of --anomaly, --matrix, --protocol and --breaches"),
        ((*DUPLICATE, "--breaches"), "expected one of --anomaly, --matrix, --protocol and --breaches"),
        (("--matrix",), "--matrix or --breaches, and --results go together"),
        (("--breaches",), "--matrix or --breaches, and --results go together"),
        ((*DUPLICATE, "--results", "file.json"), "--matrix or --breaches, and --results go together"),
        (("--protocol", "kip101"), "--protocol and --invariant go together"),
        (("--protocol", "kip320", "--invariant", "weak_isr"), "expected one of truncate-to-high-watermark with weak"),
        ((*DIVERGENCE, "--kafka-version", "2.0.0"), "brokers have the protocol kip101 in 1.1.1, 1.0.2, 0.11.0.3"),
        (("--faults", "kill", "--anomaly", "lost_write"), "there is nothing to play, it is forbidden"),
        (("--anomaly", "phantom"), "the model tells no stories of it"),
        (("--min-insync-replicas", "4", "--anomaly", "duplicate"), "--min-insync-replicas"),
        (
            ("--idempotence", "--unclean-leader-election", "--faults", "kill,kill", "--anomaly", "duplicate"),
            "brokers can't be made to take this story: step 8 (Broker 2 refuses record 1",
        ),
    ],
)
def test_what_cannot_be_played_is_refused(arguments: tuple[str, ...], expected: str) -> None:
    result = reproduce(*arguments)
    assert result.exit_code == 64
    assert expected in result.stderr


def test_a_dry_run_prints_the_story() -> None:
    result = reproduce(*DUPLICATE, "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == [
        "  1. Broker 1, the leader, appends record 0 at offset 0.",
        "  2. Broker 2 fetches offset 0 from the leader.",
    ]
    assert "The run ends: the final log, that of broker 2, holds record 0, record 0" in result.stdout


@pytest.mark.parametrize(
    ("verdict", "is_shown", "code"),
    [(Verdict.CONFORMS, True, 0), (Verdict.UNKNOWN, False, 2), (Verdict.VIOLATION, False, 1)],
)
def test_the_exit_code_says_whether_the_anomaly_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verdict: Verdict, is_shown: bool, code: int
) -> None:
    def played(claims: Sequence[Claim], how: How) -> list[Shown]:
        shown = {one.key: is_shown for one in claims}
        why = "" if is_shown else "why"
        return [Shown(how.out / f"run-{number}", verdict, shown, why) for number in range(how.times)]

    monkeypatch.setattr(plays, "play_story", played)
    result = reproduce(*DUPLICATE, "--times", 2, "--out", tmp_path)
    assert result.exit_code == code
    hits = 2 if is_shown else 0
    assert result.stdout.splitlines()[-1] == f"duplicate: shown by {hits} of 2 stories"
    as_json = json.loads(reproduce(*DUPLICATE, "--json", "--out", tmp_path).stdout)
    assert (as_json["played"], as_json["shown"]) == (1, int(is_shown))


def test_a_dry_run_prints_the_steps_of_a_breach() -> None:
    result = reproduce(*DIVERGENCE, "--dry-run")
    assert result.exit_code == 0
    shown = result.stdout.splitlines()
    assert shown[0] == "  1. The controller makes broker 1 the leader, leader epoch 0."
    assert shown[-1] == " 10. Broker 2 learns that it follows broker 1 in epoch 2."


@pytest.fixture
def breaches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The breaches that were played, and their versions: none of those on 1.0.2 is shown."""
    played: list[tuple[str, str]] = []

    class Player:
        def __init__(self, story: BreachStory, version: str, pool: object, root: Path, say: object = None) -> None:
            self.story, self.version, self.root = story, version, root

        def play(self) -> PlayedBreach:
            played.append((self.story.name, self.version))
            left = "step 5 took too long" if self.version == "1.0.2" else ""
            return PlayedBreach(self.story, self.version, self.root / "run", left)

    monkeypatch.setattr(plays, "BreachPlayer", Player)
    return played


def test_a_breach_is_played_as_often_as_it_is_asked_for(breaches: list[tuple[str, str]], tmp_path: Path) -> None:
    result = reproduce(*DIVERGENCE, "--times", 2, "--json", "--out", tmp_path)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["kafka"], found["played"], found["shown"]) == ("1.1.1", 2, 2)
    assert breaches == [("kip101: followers_agree", "1.1.1")] * 2
    result = reproduce(*DIVERGENCE, "--kafka-version", "1.0.2", "--out", tmp_path)
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        f"kip101: followers_agree on Kafka 1.0.2: step 5 took too long ({tmp_path}/run)"
    ]


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
def series(monkeypatch: pytest.MonkeyPatch) -> Plays:
    found = Plays(most=100, keys=[])
    monkeypatch.setattr(plays, "BreachPlayer", found.player)
    return found


def play(file: Path, minutes: float | None) -> int:
    return plays.play_breaches(file, KAFKA, plays.How(file.parent, minutes=minutes, quiet=True))


def test_without_minutes_each_is_played_once_and_one_that_is_left_makes_exit_code_2(
    series: Plays, tmp_path: Path
) -> None:
    file = tmp_path / "reproduced.json"

    assert play(file, minutes=None) == 2

    assert series.keys == [(story, version) for story in STORIES for version in story.versions]
    counts = [(one.played, one.shown, one.left) for one in load(file, KAFKA).breaches.values()]
    assert counts == [(1, 0, LEFT)] + [(1, 1, None)] * (len(counts) - 1)


def test_with_minutes_the_breaches_come_up_equally_often_and_the_versions_of_each(
    series: Plays, tmp_path: Path
) -> None:
    series.most = 6 * len(STORIES)

    with pytest.raises(NoMorePlays):
        play(tmp_path / "reproduced.json", minutes=10)

    for story in STORIES:
        assert [series.keys.count((story, version)) for version in story.versions] == [6 // len(story.versions)] * len(
            story.versions
        )


def test_what_was_played_before_counts(series: Plays, tmp_path: Path) -> None:
    file = tmp_path / "reproduced.json"
    results = Results(KAFKA)
    least = next(story for story in STORIES if len(story.versions) > 1)
    for key in results.breaches:
        results.breaches[key] = BreachResult(*key, played=3, shown=3)
    for version in least.versions:
        results.breaches[key_of(least, version)].played = 0
    results.breaches[key_of(least, least.versions[0])].played = 1
    results.save(file)
    series.most = 1

    with pytest.raises(NoMorePlays):
        play(file, minutes=10)

    assert series.keys == [(least, least.versions[1])]
    assert load(file, KAFKA).breaches[key_of(least, least.versions[1])].played == 1


def test_without_time_nothing_is_played(series: Plays, tmp_path: Path) -> None:
    assert play(tmp_path / "reproduced.json", minutes=0) == 0

    assert series.keys == []
