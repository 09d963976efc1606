"""What both engines said of planted and random runs. By day DuckDB has to say it again, at night Spark.

    python -m tests.verification.test_recorded [SAMPLE]...

asks both anew, and writes the answers if they agree: after a change of words, or of what a verdict says.
"""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kafka_chaos.verification import spark_session
from tests.parquet import rows_in
from tests.verification.conftest import forbid_everything
from tests.verification.oracle.rows import LaneHistory
from tests.verification.samples.engines import Verified, verified_by_both
from tests.verification.samples.random_groups import random_groups
from tests.verification.samples.random_histories import random_history
from tests.verification.samples.random_transactions import random_transactions
from tests.verification.samples.run_dirs import Rows, write_histories
from tests.verification.test_engines import SAMPLES, wide_holes_and_regressions

ANSWERS = Path(__file__).parent / "samples" / "answers"
NOT_RECORDED = ("predicted", "anomalies", "prediction", "work")
"""Keys of a lane and of its ledger that repeat what the sample says or what findings/ has, or name the model."""
Sample = Callable[[Path], Path]


def of_lanes(name: str, lanes: Callable[[Random], Iterable[LaneHistory]], seed: int) -> Sample:
    def write(folder: Path) -> Path:
        return write_histories(folder, {f"lane-{i}": one for i, one in enumerate(lanes(Random(seed)))})

    write.__name__ = name
    return write


def of_groups(seed: int) -> Sample:
    def write(folder: Path) -> Path:
        run = random_groups(Random(seed), steps=60)
        return write_histories(folder, run.lanes, run.clients, run.committed)

    write.__name__ = f"random_groups_{seed}"
    return write


def transactions(random: Random) -> Iterable[LaneHistory]:
    return [random_transactions(random, steps=30) for _ in range(10)]


def without_a_log(random: Random) -> Iterable[LaneHistory]:
    for _ in range(8):
        history = random_transactions(random, steps=30)
        history.log, history.replicas = None, []
        yield history


def plain(random: Random) -> Iterable[LaneHistory]:
    return [random_history(random, final_log=True, records=30) for _ in range(10)]


def plain_without_a_log(random: Random) -> Iterable[LaneHistory]:
    return [random_history(random, final_log=False, records=30) for _ in range(8)]


def collisions(folder: Path) -> Path:
    """Three records, readers or replicas where two would do, and a marker where others have a record."""
    rows = Rows(lanes=[{"lane": "a"}])
    for seq in range(10):
        rows.send(seq, seq).store(seq, seq)
    for number in (12, 11, 13):
        rows.send(number, None).store(3, number)
    for consumer in ("c2", "c0", "c1"):
        rows.read(0, 0, consumer=consumer).read(5, 5, consumer=consumer).read(4, 4, consumer=consumer)
    for broker in (1, 2, 3):
        for offset in range(10):
            rows.replica(broker, offset, 11 + broker if offset == 2 else offset)
    assert rows.replicas is not None
    rows.replicas[-9]["kind"] = "commit"
    return rows.write(folder, files=2)


def moments(folder: Path) -> Path:
    """Lost and doubled records that were under way before, while and after a leader changed and a log was truncated."""
    rows = Rows(lanes=[{"lane": "a", "acks": "1", "faults": ["kill"]}], clock=0).all(0, 0)
    for seq in range(1, 9):
        rows.send(seq, seq, "info" if seq in (4, 8) else "ok")
        rows.produced[-1] |= {"invoke_ns": 1_000_000 * seq, "complete_ns": 1_000_000 * (seq + 2) + 1}
        if seq % 4 == 0:
            rows.produced[-1] |= {"offset": None, "complete_ns": None}
        if seq > 4:
            rows.store(seq, seq).store(seq + 10, seq).read(seq, seq)
    at = {"lane": "a", "partition": 0}
    rows.event("leader_elected", ts_ns=500_000, broker=1, leader_epoch=0, start_offset=0, isr=[1, 2], **at)
    rows.event("leader_elected", ts_ns=8_500_000, broker=2, leader_epoch=1, start_offset=1, isr=[2], **at)
    rows.event("log_truncated", ts_ns=4_000_000, broker=1, offset=1, log_end=4, reason="planted", **at)
    return rows.write(folder, files=2)


RECORDED: tuple[Sample, ...] = (
    collisions,
    moments,
    *(sample for sample in SAMPLES if sample is not wide_holes_and_regressions),
    of_lanes("random_transactions", transactions, 61),
    of_lanes("random_transactions_without_a_log", without_a_log, 62),
    of_lanes("random_log", plain, 63),
    of_lanes("random_reads", plain_without_a_log, 64),
    *(of_groups(seed) for seed in range(65, 71)),
)

PLANTED = (*SAMPLES, *RECORDED[-4:])
"""What other tests plant by day, and four of six random runs of groups."""
BY_DAY = [pytest.param(one, marks=[pytest.mark.slow] if one in PLANTED else []) for one in RECORDED]


def answer(run_dir: Path) -> list[Any]:
    """Of verdict.json what each lane is said to be, and the rows of findings/."""
    lanes = json.loads((run_dir / "verdict.json").read_text())["lanes"]
    for values in (*lanes, *(lane["ledger"] for lane in lanes)):
        for key in NOT_RECORDED:
            values.pop(key, None)
    return [*lanes, *sorted(map(str, rows_in(run_dir / "findings")))]


@pytest.mark.usefixtures("everything_forbidden")
@pytest.mark.parametrize("sample", BY_DAY, ids=lambda one: one.__name__)
def test_an_engine_gives_the_recorded_answer(tmp_path: Path, verified: Verified, sample: Sample) -> None:
    run_dir = sample(tmp_path / "run")
    verified(run_dir)
    assert answer(run_dir) == json.loads((ANSWERS / f"{sample.__name__}.json").read_text())


def main() -> None:
    wanted = sys.argv[1:] or [sample.__name__ for sample in RECORDED]
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        forbid_everything(patch)
        spark = spark_session(with_kafka_source=False, rows=0)
        for sample in (one for one in RECORDED if one.__name__ in wanted):
            run_dir = sample(Path(folder) / sample.__name__)
            verified_by_both(run_dir, spark=spark)
            lines = ",\n".join(map(json.dumps, answer(run_dir)))
            (ANSWERS / f"{sample.__name__}.json").write_text(f"[\n{lines}\n]\n")
            print(sample.__name__)


if __name__ == "__main__":
    main()
