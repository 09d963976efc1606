"""The guide's example, on real brokers: they take every step, and the verification finds the anomaly."""

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_chaos.conformance.reproduce.playing.player import STORY_FILE
from kafka_chaos.harness.cli.main import cli
from tests.clusters import needs_links

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, needs_links]
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "reproduce.md"


def test_the_guide_s_story_is_shown_step_by_step(tmp_path: Path) -> None:
    text = GUIDE.read_text()
    command = text.split("```sh\n")[1].split("\n")[0]
    told = [line for line in text.split("```text\n")[1].split("```")[0].splitlines() if line.startswith("  ")]
    result = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output

    shown = result.stdout.splitlines()
    assert [line.rpartition(".  ")[0] for line in shown[:-3]] == [line.rpartition(".  ")[0] for line in told[:-1]]
    assert shown[-3] == told[-1]
    assert shown[-1] == "duplicate: shown by 1 of 1 story"

    run = (tmp_path / "latest").resolve()
    lane = json.loads((run / "verdict.json").read_text())["lanes"][0]
    assert lane["anomalies"]["duplicate"]["count"] == 1
    assert lane["anomalies"]["duplicate"]["status"] == "permitted"
    assert len(json.loads((run / STORY_FILE).read_text())["steps"]) == len(told) - 1
