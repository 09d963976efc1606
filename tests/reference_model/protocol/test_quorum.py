"""The rules of the controllers' quorum: majorities, who stays active, who disturbs, and whose sessions are in doubt."""

from __future__ import annotations

import pytest

from kafka_chaos.reference_model.protocol.quorum import disturbs, doubts_sessions, has_majority, stays_active


@pytest.mark.parametrize(
    ("voters", "least"),
    [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)],
)
def test_a_majority_is_more_than_half(voters: int, least: int) -> None:
    assert [reached for reached in range(voters + 1) if has_majority(reached, voters)] == list(range(least, voters + 1))


@pytest.mark.parametrize(
    ("reached", "resigns", "stays"), [(2, True, True), (1, True, False), (1, False, True), (2, False, True)]
)
def test_without_a_majority_an_active_controller_resigns_since_3_7(reached: int, resigns: bool, stays: bool) -> None:
    assert stays_active(reached, 3, resigns=resigns) is stays


@pytest.mark.parametrize(
    ("campaigned", "asks_first", "expected"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_who_has_campaigned_alone_disturbs_unless_it_asks_first(
    campaigned: bool, asks_first: bool, expected: bool
) -> None:
    assert disturbs(campaigned, asks_first=asks_first) is expected


def test_sessions_are_in_doubt_after_an_interruption_and_while_brokers_stayed_with_the_former_controller() -> None:
    found = {(a, b): doubts_sessions(a, b) for a in (True, False) for b in (True, False)}
    assert found == {(True, True): True, (True, False): True, (False, True): True, (False, False): False}
