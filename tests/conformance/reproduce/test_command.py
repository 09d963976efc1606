"""`kafka-chaos reproduce` without a cluster: refusals and output."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.conformance.reproduce import command, plays
from kafka_chaos.conformance.reproduce.claims import Claim
from kafka_chaos.conformance.reproduce.playing.player import Shown
from kafka_chaos.conformance.reproduce.plays import How
from kafka_chaos.contract.anomalies import Verdict
from tests.commands import ended

DUPLICATE = ("--acks", "1", "--faults", "kill", "--anomaly", "duplicate")


@pytest.fixture(autouse=True)
def links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_require_links", lambda: None)


def reproduce(*arguments: object) -> Any:
    return ended(command.reproduce_command, *arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "expected either --anomaly or --matrix"),
        ((*DUPLICATE, "--matrix"), "expected either --anomaly or --matrix"),
        (("--matrix",), "--matrix and --results go together"),
        ((*DUPLICATE, "--results", "file.json"), "--matrix and --results go together"),
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
