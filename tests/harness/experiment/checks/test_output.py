"""Where a run is to write is checked before anything starts, and nothing is left there."""

import errno
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.harness.experiment.checks.output import check_output
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.specs import HISTORY_BYTES

TWO_LANES = "name: x\nworkload: {rate: 1000, duration: 10, record_size: 100}\nlanes: [{lane: a}, {lane: b}]"
EXPERIMENT = parse_experiment(TWO_LANES, "x.yaml")


def test_the_plan_counts_every_replica_and_the_history() -> None:
    assert EXPERIMENT.planned_bytes == 2 * 1000 * 10 * (100 * 3 + HISTORY_BYTES)


@pytest.mark.parametrize(("number", "kind"), [(errno.EROFS, EnvironmentFailure), (errno.EACCES, UsageFailure)])
def test_a_folder_that_can_not_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", Mock(side_effect=OSError(number, "as the system says")))
    with pytest.raises(kind, match=f"--out {tmp_path}: .*{tmp_path}.*: choose another path"):
        check_output(tmp_path, EXPERIMENT)


def test_too_full_a_disk_is_refused_with_both_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=200 * 2**20))
    with pytest.raises(EnvironmentFailure, match="the run may write 266 MiB, and 200 MiB are free"):
        check_output(tmp_path, EXPERIMENT)
