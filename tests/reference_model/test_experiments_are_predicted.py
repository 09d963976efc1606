"""`predict` answers every lane used anywhere in experiments/, and the benchmark measures every mix of faults there.

The answers to these and to those of the documentation ship with the package.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from kafka_chaos.reference_model import Lane, predict, predict_cached
from kafka_chaos.reference_model.compare import Cluster, compare
from kafka_chaos.reference_model.document import UPGRADES
from kafka_chaos.reference_model.matrix import FAULT_SETS, LANES
from kafka_chaos.reference_model.predict import cache as cache_module
from kafka_chaos.reference_model.predict.answers import shipped
from kafka_chaos.reference_model.predict.cache import model_digest, question_key
from kafka_chaos.reference_model.predict.sensitivity import sensitivity
from tests.reference_model.standard_lanes import EXPERIMENTS, of_experiments, standard

REGENERATE = "python -m tests.reference_model.standard_lanes writes the shipped answers anew"


def test_every_usual_answer_ships_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_searching(*_: object, **__: object) -> None:
        raise AssertionError(REGENERATE)

    monkeypatch.setattr(cache_module, "predict", no_searching)
    assert len(standard()) > 200
    for lane, lockstep in standard().values():
        assert predict_cached(lane, lockstep, tmp_path).complete


@pytest.mark.parametrize(("before", "after"), UPGRADES)
def test_the_usual_comparisons_need_no_search(
    before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_searching(*_: object, **__: object) -> None:
        raise AssertionError(REGENERATE)

    monkeypatch.setattr(cache_module, "predict", no_searching)
    found = compare(Cluster.parse(before), Cluster.parse(after), lambda lane: predict_cached(lane, cache_dir=tmp_path))
    assert found.asked == len(LANES) * len(FAULT_SETS)


SAMPLE = 40
KEYS = [
    pytest.param(key, marks=[pytest.mark.slow] if number % SAMPLE else [], id=key[:8])
    for number, key in enumerate(standard())
]


@pytest.mark.parametrize("key", KEYS)
def test_a_shipped_answer_is_what_the_model_says(key: str) -> None:
    lane, lockstep = standard()[key]
    assert shipped(key, model_digest()) == predict(lane, lockstep=lockstep), REGENERATE


def test_another_model_takes_no_shipped_answer() -> None:
    lane = Lane(lane="shipped", acks="1", faults=("kill",))
    assert shipped(question_key(lane, None), model_digest())
    assert shipped(question_key(lane, None), "another") is None


def test_the_benchmark_measures_every_mix() -> None:
    measured = runpy.run_path(str(EXPERIMENTS.parent / "benchmarks" / "model_explore.py"))["FAULTS"]
    used = {tuple(sorted(lane.faults)) for _, lane, _ in of_experiments()}
    assert used <= {tuple(sorted(faults)) for faults in measured}


@pytest.mark.slow
@pytest.mark.parametrize("key", dict.fromkeys(question_key(lane, lockstep) for _, lane, lockstep in of_experiments()))
def test_one_more_record_or_attempt_changes_no_prediction(key: str) -> None:
    """Three hours of processor time for all lanes, 5 GB for the largest."""
    lane, lockstep = standard()[key]
    prediction = predict(lane, lockstep=lockstep)
    enlarged = sensitivity(prediction, lane, lockstep, max_states=10_000_000)
    bounds = ["records"] if lane.acks == "0" else ["records", "attempts"]
    for bound, larger in zip(bounds, enlarged, strict=False):
        assert larger.bound == bound
        assert larger.reason == ""
        assert larger.changes == {}, larger
