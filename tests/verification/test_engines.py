"""Both engines give the same verdict.json and the same findings: by day of one run with an anomaly of each kind.

At night, Spark has each sample by itself, and `verified` sends every sample of these folders through both.
"""

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import WIDEST_LISTED_GAP
from kafka_chaos.verification import RunDirectoryError
from tests.verification.detection.test_planted import PLANTS, valid
from tests.verification.oracle.rows import LaneHistory
from tests.verification.samples import planted_groups, planted_transactions
from tests.verification.samples.engines import assert_both_agree, verified_by_both
from tests.verification.samples.mutations import MUTATIONS, PIECES, conforming, null, violating
from tests.verification.samples.run_dirs import Rows, read_causes, write_histories

pytestmark = pytest.mark.spark

Sample = Callable[[Path], Path]


def lanes_with_each_anomaly() -> dict[str, LaneHistory]:
    """One lane for each plant."""
    lanes = {plant.__name__: valid() for plant in PLANTS}
    for plant in PLANTS:
        plant(lanes[plant.__name__], 70)
    return lanes


def lanes_of_transactions() -> dict[str, LaneHistory]:
    """One lane for each plant of transactions."""
    return {plant.__name__: plant()[0] for plant in planted_transactions.PLANTS}


def every_anomaly(folder: Path) -> Path:
    return write_histories(folder, lanes_with_each_anomaly())


def every_anomaly_of_transactions(folder: Path) -> Path:
    return write_histories(folder, lanes_of_transactions())


def without(table: str, sample: Sample) -> Sample:
    def write(folder: Path) -> Path:
        shutil.rmtree(sample(folder) / table)
        return folder

    write.__name__ = f"{sample.__name__}_without_{table}"
    return write


def causes(folder: Path) -> Path:
    """Losses that a truncation, a fault and a leader epoch explain, and duplicates of an idempotent producer."""
    rows = Rows(lanes=[{"lane": "a", "acks": "1", "partitions": 2}, {"lane": "b", "acks": "all", "idempotence": True}])
    rows.all(0, 0).send(1, 1).send(2, None).all(2, 3).send(4, 4, partition=1)
    rows.event("log_truncated", lane="a", partition=0, broker=1, offset=1, log_end=2, reason="planted")
    rows.event("fault_requested", fault_id="k", kind="kill", lanes=["a"], resolved=["broker-1"])
    rows.event("fault_proven", fault_id="k").send(5, None).event("fault_healed", fault_id="k")
    for offset, epoch in enumerate((0, 1)):
        rows.store(offset, 0, lane="b").read(offset, 0, lane="b").replica(1, offset, 0, lane="b", producer_epoch=epoch)
    rows.send(0, 0, lane="b")
    chain = {"high_watermark": 5, "log_end_offset": 5, "leader_epochs": [[0, 0], [3, 4]]}
    rows.checkpoints = {"brokers": {"1": {"a/1": chain}}}
    return rows.write(folder)


def wide_holes_and_regressions(folder: Path) -> Path:
    """A hole that is listed and one that is not, high watermarks that go back, replicas that differ, phantoms."""
    rows = Rows(lanes=[{"lane": name} for name in ("it's", "b")])
    for seq, offset in enumerate((0, WIDEST_LISTED_GAP + 1, 10**12)):
        rows.all(offset, seq, lane="it's")
        rows.all(seq, seq, lane="b")
    for epoch, mark in ((0, 5), (0, 7), (0, 6), (1, 3), (1, 2)):
        rows.event("high_watermark", lane="b", partition=0, broker=1, leader_epoch=epoch, high_watermark=mark)
    for broker in (1, 2, 3):
        rows.replica(broker, 0, broker // 2, lane="b", epoch=broker)
    rows.store(0, 0, lane="b").read(1, 7, lane="b").read(1, -1, lane="b", producer_id=-1)
    return rows.write(folder)


SAMPLES: tuple[Sample, ...] = (
    every_anomaly,
    without("log", every_anomaly),
    without("replicas", every_anomaly),
    every_anomaly_of_transactions,
    without("log", every_anomaly_of_transactions),
    without("replicas", every_anomaly_of_transactions),
    causes,
    wide_holes_and_regressions,
)


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


@pytest.mark.slow
@pytest.mark.usefixtures("everything_forbidden")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: one.__name__)
def test_both_engines_agree(tmp_path: Path, spark: Any, sample: Sample) -> None:
    verified_by_both(sample(tmp_path / "run"), spark=spark)


@pytest.mark.slow
def test_both_engines_agree_on_what_is_spoilt(tmp_path: Path, spark: Any) -> None:
    refused = 0
    for number, piece in enumerate(PIECES):
        run_dir = (conforming, violating)[number % 2]().write(tmp_path / str(number), files=2)
        MUTATIONS[number % len(MUTATIONS)](run_dir / piece)
        try:
            verified_by_both(run_dir, spark=spark)
        except RunDirectoryError:
            refused += 1
    assert 0 < refused < len(PIECES)


@pytest.mark.slow
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
