"""Writes the run directory, which holds a run's evidence, during the run."""

import json
import platform
import re
import secrets
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.files import appearing_whole, write_whole
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import FORMAT_VERSION, LANES_FILE, PREDICTION_FILE, lanes_document

LATEST = "latest"  # the link to the newest run directory


def new_run_id(experiment: str) -> str:
    """A unique id of a run of this experiment; ids sort by time."""
    slug = re.sub(r"[^a-z0-9]+", "-", experiment.lower()).strip("-")
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{slug}-{secrets.token_hex(2)}"


class RunDirectoryWriter:
    """Creates a run directory below `root`, lets `root/latest` point to it, and writes its small files."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.run_id = run_id
        self.path = root / run_id
        self.path.mkdir(parents=True)
        (self.path / "logs").mkdir()
        point_latest(root, run_id)

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file whole or not at all."""
        write_whole(self.path / name, json.dumps(value, indent=1) + "\n")

    def write_lanes(self, lanes: Iterable[Lane]) -> None:
        """Write lanes.json as the contract defines it."""
        self.write_json(LANES_FILE, lanes_document(lanes))

    def write_predictions(self, predictions: Mapping[str, Mapping[str, Any]]) -> None:
        """Write prediction.json as the contract defines it. `predictions`: by lane, as JSON objects."""
        self.write_json(PREDICTION_FILE, {"format_version": FORMAT_VERSION, "lanes": predictions})


def versions(kafka_version: str) -> dict[str, str]:
    """The versions of everything that may influence a run's result."""
    from confluent_kafka import libversion

    recorded = {
        # `version(…)` would need the name of the distribution, which only pyproject.toml states.
        "kafka_chaos": sys.modules["kafka_chaos"].__version__,
        "kafka": kafka_version,
        "confluent_kafka": version("confluent-kafka"),
        "librdkafka": libversion()[0],
        "python": platform.python_version(),
    }
    with suppress(PackageNotFoundError):  # PySpark is an extra, and a platform's own PySpark may lack metadata.
        recorded["spark"] = version("pyspark")
    return recorded


def point_latest(root: Path, run_id: str) -> None:
    """Let the link `root/latest` point to this run, instead of an earlier one."""
    with appearing_whole(root / LATEST) as link:
        link.symlink_to(run_id)
