"""`predict` answers every lane used anywhere in experiments/, and the benchmark measures every mix of faults there.

The answers to these and to those of the documentation ship with the package.
"""

import json
import re
import runpy
from importlib.resources import files
from pathlib import Path

import pytest
from larger_scopes import searched_together, sensitivity_together
from model_page import UPGRADES

from kafka_chaos.reference_model import Lane, Prediction, predict, predict_cached
from kafka_chaos.reference_model.compare import FAULT_SETS, LANES, Cluster, compare
from kafka_chaos.reference_model.predict import cache as cache_module
from kafka_chaos.reference_model.predict.cache import FILE, MODEL_VERSION, question_key, shipped_answer
from tests.reference_model.standard_lanes import EXPERIMENTS, standard

SHIPPED = json.loads((files("kafka_chaos.reference_model.predict") / FILE).read_text("utf-8"))["answers"]
REGENERATE = "python -m tests.reference_model.standard_lanes writes the shipped answers anew"


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(REGENERATE)

    monkeypatch.setattr(cache_module, "predict", refuse)


@pytest.mark.usefixtures("no_search")
def test_every_usual_answer_ships_with_the_package(tmp_path: Path) -> None:
    assert len(standard()) > 200
    assert standard().keys() == SHIPPED.keys(), REGENERATE
    for lane, lockstep in standard().values():
        assert predict_cached(lane, lockstep, tmp_path).complete


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(("before", "after"), UPGRADES)
def test_the_usual_comparisons_need_no_search(before: str, after: str, tmp_path: Path) -> None:
    found = compare(Cluster.parse(before), Cluster.parse(after), lambda lane: predict_cached(lane, cache_dir=tmp_path))
    assert found.asked == len(LANES) * len(FAULT_SETS)


MOST_STATES = 300
KEYS = [
    pytest.param(key, marks=[pytest.mark.slow] if body["scope"]["states"] > MOST_STATES else [], id=key[:8])
    for key, body in SHIPPED.items()
]
"""By day those that are searched in no time."""


@pytest.mark.parametrize("key", KEYS)
def test_a_shipped_answer_is_what_the_model_says(key: str) -> None:
    lane, lockstep = standard()[key]
    answer = shipped_answer(key, MODEL_VERSION)
    assert answer is not None
    assert uncounted(answer) == uncounted(predict(lane, lockstep=lockstep)), REGENERATE


def uncounted(answer: Prediction) -> str:
    """An answer without the number of states that its search took: that is no part of what the model says."""
    text = json.dumps(answer.to_json(), sort_keys=True)
    return re.sub(r"none of \d+ states|\"states\": \d+", "", text)


def test_another_model_takes_no_shipped_answer() -> None:
    lane = Lane(lane="shipped", acks="1", faults=("kill",))
    assert shipped_answer(question_key(lane, None), MODEL_VERSION)
    assert shipped_answer(question_key(lane, None), MODEL_VERSION + 1) is None


BENCHMARK = runpy.run_path(str(EXPERIMENTS.parent / "benchmarks" / "sensitivity.py"))


@pytest.mark.slow
def test_lanes_searched_together_show_what_they_show_one_by_one() -> None:
    """A prediction that forbids too much is noticed for each of the lanes, and for all of them together."""
    lanes = [
        Lane(lane="together", acks="1", replication_factor=2, faults=faults) for faults in (("stop",), ("power-loss",))
    ]
    nothing = predict(Lane(lane="without-faults", acks="1", replication_factor=2))
    assert searched_together([(lane, nothing) for lane in lanes]) == [lanes]
    one_by_one = [list(sensitivity_together(nothing, [lane])) for lane in lanes]
    together = list(sensitivity_together(nothing, lanes))
    assert [larger.bound for larger in together] == ["records", "attempts"]
    for number, larger in enumerate(together):
        assert larger.changes == {**one_by_one[0][number].changes, **one_by_one[1][number].changes}
        assert larger.changes


def test_predictions_that_forbid_different_anomalies_are_not_searched_together() -> None:
    lanes = [Lane(lane="apart", acks=acks, faults=(fault,)) for acks in ("0", "1") for fault in ("kill", "pause")]
    groups = searched_together([(lane, predict_cached(lane)) for lane in lanes])
    for group in groups:
        forbidden = [
            {a for a, answer in predict_cached(lane).anomalies.items() if answer.status == "forbidden"}
            for lane in group
        ]
        assert all(one == forbidden[0] for one in forbidden)
        assert len({lane.acks for lane in group}) == 1


@pytest.mark.slow
def test_in_the_record_no_larger_scope_changes_a_prediction() -> None:
    record = json.loads(BENCHMARK["RECORD"].read_text("utf-8"))
    assert all(BENCHMARK["unchanged"](entry) for entry in record["searches"])
    answered = {key for entry in record["searches"] for key in entry["lanes"]}
    assert BENCHMARK["questions"]().keys() <= answered, "run benchmarks/sensitivity.py"


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_one_more_record_or_attempt_changes_no_prediction() -> None:
    """Half a million states, and 1 GB, for the largest search."""
    for group in BENCHMARK["searches"](BENCHMARK["questions"]().values()):
        answer = BENCHMARK["answer"](group)
        assert BENCHMARK["unchanged"](answer), answer
