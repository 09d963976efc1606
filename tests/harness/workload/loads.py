"""Loads without brokers: their settings, and a broker that nobody can reach."""

from pathlib import Path
from typing import Any

from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables


def load_of(folder: Path, *lanes: LaneSpec, **given: Any) -> LoadSettings:
    """The settings of a load of these lanes that writes there; `given` replaces the usual ones."""
    usual = {"bootstrap_servers": "127.0.0.1:1", "workload": WorkloadSpec(settle_timeout=0.1)}
    usual |= {"on_notice": print, "on_change": print}
    return LoadSettings(tables=LoadTables(folder, lanes), **{**usual, **given})
