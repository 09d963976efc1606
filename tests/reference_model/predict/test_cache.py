from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.reference_model import Anomaly, Lane, LockstepStep, Status, predict
from kafka_chaos.reference_model.predict import cache as cache_module

LANE = Lane(lane="cached", acks="0", faults=("kill",), replication_factor=2)
TRANSACTIONS = replace(LANE, acks="all", faults=(), idempotence=True, transactional=Transactional(size=1))
GROUP = replace(LANE, acks="all", faults=(), group=Group(members=2))
OTHER_GROUPS: list[dict[str, Any]] = [
    {"commits": "before"}, {"crashes": 1}, {"leaves": 1}, {"static": True}, {"members": 1}, {"assignor": "range"},
]  # fmt: skip


def test_an_answer_is_explored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cache_module.predict_cached(LANE, cache_dir=tmp_path)
    monkeypatch.setattr(cache_module, "predict", Mock(side_effect=AssertionError("explored although it was cached")))
    assert cache_module.predict_cached(LANE, cache_dir=tmp_path) == first
    assert cache_module.predict_cached(replace(LANE, lane="x", topic="y"), cache_dir=tmp_path) == first


@pytest.mark.parametrize("damage", ["", "{", '{"digest": "x", "prediction": {}}', "[]", "null"])
def test_a_damaged_entry_is_explored_anew(tmp_path: Path, damage: str) -> None:
    expected = cache_module.predict_cached(LANE, cache_dir=tmp_path)
    (entry,) = tmp_path.iterdir()
    entry.write_text(damage)
    assert cache_module.predict_cached(LANE, cache_dir=tmp_path) == expected
    assert entry.read_text() != damage


def test_an_altered_answer_is_not_believed(tmp_path: Path) -> None:
    cache_module.predict_cached(LANE, cache_dir=tmp_path)
    (entry,) = tmp_path.iterdir()
    entry.write_text(entry.read_text().replace('"permitted"', '"forbidden"', 1))
    answer = cache_module.predict_cached(LANE, cache_dir=tmp_path)
    assert answer.status(Anomaly.LOST_WRITE) is Status.PERMITTED


@pytest.mark.parametrize(
    ("lane", "changes"),
    [
        (LANE, {"acks": "1"}),
        (LANE, {"faults": ("kill", "kill")}),
        (LANE, {"min_insync_replicas": 2}),
        (LANE, {"replication_factor": 3}),
        (LANE, {"unclean_leader_election": True}),
        (LANE, {"max_in_flight": 1}),
        (LANE, {"acks": "all", "idempotence": True}),
        (TRANSACTIONS, {"transactional": None}),
        (TRANSACTIONS, {"transactional": Transactional(size=2)}),
        (TRANSACTIONS, {"transactional": Transactional(size=1, producers=2)}),
        (TRANSACTIONS, {"partitions": 2}),
        (TRANSACTIONS, {"kafka_version": "3.5.2"}),
        *((GROUP, {"group": Group(**{"members": 2, **change})}) for change in OTHER_GROUPS),
    ],
)
def test_what_matters_is_in_the_key(lane: Lane, changes: dict[str, Any]) -> None:
    assert cache_module.cache_key(replace(lane, **changes), None) != cache_module.cache_key(lane, None)


def test_the_lockstep_is_in_the_key_and_the_order_of_faults_is_not() -> None:
    assert cache_module.cache_key(LANE, (LockstepStep.ELECT,)) != cache_module.cache_key(LANE, None)
    one, other = replace(LANE, faults=("kill", "pause")), replace(LANE, faults=("pause", "kill"))
    assert cache_module.cache_key(one, None) == cache_module.cache_key(other, None)


def test_another_version_of_the_model_takes_no_old_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, key = cache_module.predict_cached(LANE, cache_dir=tmp_path), cache_module.cache_key(LANE, None)
    monkeypatch.setattr(cache_module, "MODEL_VERSION", cache_module.MODEL_VERSION + 1)
    assert cache_module.cache_key(LANE, None) != key
    monkeypatch.setattr(cache_module, "predict", lambda *_, **__: replace(old, states=old.states + 1))
    assert cache_module.predict_cached(LANE, cache_dir=tmp_path).states == old.states + 1


def test_the_digest_of_the_model_names_its_version_and_its_rules_as_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "files", lambda _: tmp_path)
    rules, digest = ("protocol/known_defects.toml", "predict/answers.json"), cache_module.model_digest.__wrapped__
    for name in rules:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    digests = [digest()]
    assert digest() == digests[0]
    for name in rules:
        (tmp_path / name).write_text("changed")
        digests.append(digest())
    monkeypatch.setattr(cache_module, "MODEL_VERSION", cache_module.MODEL_VERSION + 1)
    assert len({*digests, digest()}) == 4


def test_a_directory_that_cannot_be_written_costs_the_cache_only(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert cache_module.predict_cached(LANE, cache_dir=blocked / "cache") == predict(LANE)
