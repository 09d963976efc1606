"""Lives of producers that are drawn: the same for one seed, and such as the bounds allow."""

from __future__ import annotations

from typing import Any

from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.experiment.lives import LifeSpec


def drawn(seed: int, lane: str = "a", **bounds: Any) -> tuple[LifeSpec, ...]:
    values: dict[str, Any] = {"name": "x", "seed": seed, "workload": {"duration": 20}}
    values["lanes"] = [{"lane": lane, "lives": {"generate": bounds}}]
    return experiment_of(values, "file").phases[0].lanes[0].lives


def test_a_seed_draws_the_same_lives_for_a_lane() -> None:
    assert drawn(3, count=5) == drawn(3, count=5)
    assert drawn(3, count=5) != drawn(4, count=5)
    assert drawn(3, count=5) != drawn(3, count=5, lane="b")


def test_what_is_drawn_is_within_the_bounds() -> None:
    lives = drawn(1, count=100, first_at=5, lasts=[2, 3], ends=["kill"], returns=None)
    assert len(lives) == 100
    assert all(5 <= life.at <= 20 and 2 <= (life.lasts or 0) <= 3 for life in lives)
    assert {(life.count, life.ends, life.returns) for life in lives} == {(1, "kill", None)}
    others = drawn(1, count=100)
    assert {life.ends for life in others} == {"kill", "leave"}
    assert all(0.5 <= (life.returns or 0) <= 4 for life in others)


def test_without_a_seed_one_is_drawn_that_replays_it() -> None:
    experiment = experiment_of({"name": "x", "lanes": [{"lane": "a", "lives": {"generate": {}}}]}, "file")
    again = experiment_of(
        {"name": "x", "seed": experiment.seed, "lanes": [{"lane": "a", "lives": {"generate": {}}}]}, "file"
    )
    assert experiment.phases[0].lanes[0].lives == again.phases[0].lanes[0].lives
    assert len(experiment.phases[0].lanes[0].lives) == 3
