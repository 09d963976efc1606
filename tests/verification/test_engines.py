"""Both engines give the same verdict.json and the same findings of a run with an anomaly of each kind.

By day, `test_end_to_end` compares them on a run of brokers; at night, `verified` sends every sample through both.
"""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.verification import RunDirectoryError
from tests.verification.detection.test_planted import PLANTS, valid
from tests.verification.oracle.rows import LaneHistory
from tests.verification.samples import planted_groups, planted_transactions
from tests.verification.samples.engines import assert_both_agree, verified_by_both
from tests.verification.samples.mutations import conforming, null
from tests.verification.samples.run_dirs import Rows, read_causes, write_histories

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def lanes_with_each_anomaly() -> dict[str, LaneHistory]:
    """One lane for each plant."""
    lanes = {plant.__name__: valid() for plant in PLANTS}
    for plant in PLANTS:
        plant(lanes[plant.__name__], 70)
    return lanes


def lanes_of_transactions() -> dict[str, LaneHistory]:
    """One lane for each plant of transactions."""
    return {plant.__name__: plant()[0] for plant in planted_transactions.PLANTS}


def explain(run_dir: Path) -> Path:
    """Let the run have a fault and two leaders of each partition 0, so that every cause is looked for."""
    lanes = [lane["lane"] for lane in json.loads((run_dir / "lanes.json").read_text())["lanes"]]
    rows = Rows().event("fault_requested", ts_ns=1, fault_id="f", kind="kill", lanes=lanes, resolved=["broker-1"])
    rows.event("fault_proven", ts_ns=1, fault_id="f").event("fault_healed", ts_ns=10**12, fault_id="f")
    for lane, epoch in product(lanes, (0, 1)):
        leader = {"broker": epoch + 1, "leader_epoch": epoch, "start_offset": 50 * epoch, "isr": [1, 2]}
        rows.event("leader_elected", ts_ns=10 + epoch, lane=lane, partition=0, **leader)
    (run_dir / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in rows.events or ()))
    return run_dir


@pytest.mark.usefixtures("everything_forbidden")
def test_both_engines_agree_on_every_anomaly_at_once(tmp_path: Path, spark: Any) -> None:
    groups, _ = planted_groups.owned_twice()
    lanes = {**lanes_with_each_anomaly(), **lanes_of_transactions(), **groups.lanes}
    run_dir = write_histories(tmp_path / "run", lanes, groups.clients, groups.committed)
    assert_both_agree(explain(run_dir), spark=spark)
    anomalies = {anomaly for _, anomaly, _ in read_causes(run_dir)}
    assert anomalies >= {*(plant.__name__ for plant in PLANTS), "zombie_commit", "dependency_cycle", "owned_twice"}


def test_both_engines_refuse_with_the_same_words(tmp_path: Path, spark: Any) -> None:
    spoilt = (
        conforming().send(3, None, "info").send(7, None, "info"),
        conforming().send(50, None, "perhaps"),
        conforming().store(50, 50, lane="b"),
        conforming().read(50, 3, partition=1),
        conforming(),
    )
    for number, rows in enumerate(spoilt):
        run_dir = rows.write(tmp_path / str(number), files=2)
        if rows is spoilt[-1]:
            null(run_dir / "log")
        with pytest.raises(RunDirectoryError):
            verified_by_both(run_dir, spark=spark)
