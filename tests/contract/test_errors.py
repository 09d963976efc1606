"""How messages name what they count."""

from __future__ import annotations

from kafka_chaos.contract.errors import counted, first_of


def test_a_count_has_its_noun() -> None:
    assert [counted(number, "run") for number in (0, 1, 2_000)] == ["0 runs", "1 run", "2,000 runs"]
    assert counted(2, "replica in doubt", "replicas in doubt") == "2 replicas in doubt"


def test_a_long_list_is_cut_and_says_so() -> None:
    assert first_of(["a", "b", "c"], 3) == "a, b, c"
    assert first_of(["a", "b", "c", "d"], 3) == "a, b, c, …"
    assert first_of([]) == ""
