"""What both engines said of planted and random runs. By day the plain engine has to say it again, at night Spark.

    python -m tests.verification.test_recorded

asks both anew, and writes the answers if they agree: after a change of words, or of what a verdict says.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kafka_chaos.verification import spark_session
from kafka_chaos.verification.plain.rows import LaneHistory
from tests.parquet import rows_in
from tests.verification.conftest import forbid_everything
from tests.verification.samples.engines import Verified, verified_by_both
from tests.verification.samples.random_groups import random_groups
from tests.verification.samples.random_histories import random_history
from tests.verification.samples.random_transactions import random_transactions
from tests.verification.samples.run_dirs import write_histories
from tests.verification.test_engines import SAMPLES, wide_holes_and_regressions

ANSWERS = Path(__file__).parent / "samples" / "answers"
NOT_RECORDED = ("predicted", "anomalies", "prediction")
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


RECORDED: tuple[Sample, ...] = (
    *(sample for sample in SAMPLES if sample is not wide_holes_and_regressions),
    of_lanes("random_transactions", transactions, 61),
    of_lanes("random_transactions_without_a_log", without_a_log, 62),
    of_lanes("random_log", plain, 63),
    of_lanes("random_reads", plain_without_a_log, 64),
    *(of_groups(seed) for seed in range(65, 71)),
)


def answer(run_dir: Path) -> list[Any]:
    """Of verdict.json what each lane is said to be, and the rows of findings/."""
    lanes = json.loads((run_dir / "verdict.json").read_text())["lanes"]
    for values in (*lanes, *(lane["ledger"] for lane in lanes)):
        for key in NOT_RECORDED:
            values.pop(key, None)
    return [*lanes, *sorted(map(str, rows_in(run_dir / "findings")))]


@pytest.mark.usefixtures("everything_forbidden")
@pytest.mark.parametrize("sample", RECORDED, ids=lambda one: one.__name__)
def test_an_engine_gives_the_recorded_answer(tmp_path: Path, verified: Verified, sample: Sample) -> None:
    run_dir = sample(tmp_path / "run")
    verified(run_dir)
    assert answer(run_dir) == json.loads((ANSWERS / f"{sample.__name__}.json").read_text())


def main() -> None:
    ANSWERS.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        forbid_everything(patch)
        spark = spark_session(with_kafka_source=False, rows=0)
        for sample in RECORDED:
            run_dir = sample(Path(folder) / sample.__name__)
            verified_by_both(run_dir, spark=spark)
            lines = ",\n".join(map(json.dumps, answer(run_dir)))
            (ANSWERS / f"{sample.__name__}.json").write_text(f"[\n{lines}\n]\n")
            print(sample.__name__)


if __name__ == "__main__":
    main()
