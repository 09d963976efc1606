"""The commands of the guides on schedules and links, one after the other, on real brokers and on what they left."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.experiment.file import load_experiment
from tests.clusters import needs_links

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, needs_links]
GUIDES = Path(__file__).parents[3] / "docs" / "guides"
LOSES = """\
name: loses
cluster: {links: true}
workload: {rate: 300, duration: 16}
lanes: [{lane: acks1, acks: "1", leader: 1}]
schedule:
  - {fault: partition, target: "broker:1", at: 2, duration: 8}
  - {fault: kill, target: "broker:1", at: 4, duration: 2}
  - {fault: pause, target: "broker:3", at: 12, duration: 1}
"""
"""Records that are acknowledged while followers in the ISR can't fetch them are lost with the leader, for certain."""


def command_of(guide: str, name: str) -> list[str]:
    """The first command of that name in a guide, without `kafka-chaos`."""
    line = re.search(rf"^kafka-chaos ({name} .*)$", (GUIDES / guide).read_text(), re.MULTILINE)
    assert line is not None
    return shlex.split(line[1])


def done(*arguments: str) -> str:
    """The output of a command, which has to end with 0."""
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_run_is_planned_replayed_traced_and_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("experiments").mkdir()
    Path("experiments/demo.yaml").write_text(LOSES)
    assert "partition" in done(*command_of("replay.md", "plan"))
    done("run", "experiments/demo.yaml", "--out", "runs", "--quiet")
    first = Path("runs/latest").resolve()
    assert "acks1:lost_write: shown by 1 of 1" in done(*command_of("replay.md", "replay")[:2], "--out", "replays")
    trace = command_of("links.md", "trace")
    assert trace[:2] == ["trace", "runs/latest"]
    assert "Produce" in done(*trace[:2], "--api", "Produce", "--limit", "5")
    shrink = command_of("replay.md", "shrink")
    shrink[shrink.index("--minutes") + 1] = "2"
    done(*shrink, "--confirm", "1", "--repeats", "1", "--out", "shrinking")
    small = load_experiment(Path("shrunk.yaml")).phases[0].schedule
    assert "kill" in [entry.fault for entry in small], "without a new leader, nothing is lost"
    assert first.is_dir()


def test_the_guide_s_hunt_shows_what_it_has_not_shown_before_and_no_violation_but_a_known_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (GUIDES / "replay.md").read_text()
    Path("hunt.yaml").write_text(text.split("```yaml\n# hunt.yaml\n")[1].split("```")[0])
    result = CliRunner().invoke(cli, [*command_of("replay.md", "hunt"), "--runs", "2"])
    # Its time-outs are such that one freeze shows a known defect of librdkafka.
    found = re.findall(r"^found: (\S+)", result.output, re.MULTILINE)
    assert (result.exit_code, found) in ((0, []), (1, ["librdkafka-4953"])), result.output
    assert len(list(Path("runs/hunt").glob("*/runs/2*/verdict.json"))) == 2
    assert re.search(r"new observations in the last 2 rounds: [1-9]\d*, \d+", result.output)
