"""The rules by version and metadata mode, from Kafka's documentation and the KIPs."""

import pytest

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import elects_from_elr, has_mode, release, usual_mode
from kafka_chaos.reference_model.protocol.eligible import (
    Standing,
    electable,
    eligible_after_election,
    eligible_replicas,
    is_last_known_leader,
)
from kafka_chaos.reference_model.protocol.rules import rules_in, rules_of

NOBODY: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("version", "variant"),
    [
        ("0.10.2.2", "truncate-to-high-watermark"), ("0.11.0.0", "kip101"),
        ("1.1.1", "kip101"), ("2.0.0", "kip279"), ("2.1.0", "kip320"), ("4.3.1", "kip320"),
    ],
)  # fmt: skip
def test_truncation_and_fencing(version: str, variant: str) -> None:
    assert rules_in(version, None, None).variant == variant
    assert bool(rules_in(version, None, None).limits) is (variant != "kip320")


@pytest.mark.parametrize(
    ("version", "mode", "elr", "elects"),
    [
        ("3.9.1", "kraft", None, False), ("3.9.1", "zookeeper", None, False), ("4.0.0", "kraft", None, False),
        ("4.0.0", "kraft", True, True), ("4.1.0", "kraft", None, True), ("4.1.0", "kraft", False, False),
    ],
)  # fmt: skip
def test_eligible_replicas_since_4_0_and_by_default_since_4_1(
    version: str, mode: str, elr: bool | None, elects: bool
) -> None:
    assert elects_from_elr(version, mode, elr) is elects
    assert rules_in(version, mode, elr).elects_eligible is elects


def test_the_modes_of_a_version() -> None:
    assert [has_mode(version, "zookeeper") for version in ("3.9.1", "4.0.0")] == [True, False]
    assert [has_mode(version, "kraft") for version in ("2.7.2", "2.8.0")] == [False, True]
    assert [usual_mode(version) for version in ("3.9.1", "4.0.0")] == ["zookeeper", "kraft"]


def test_a_vendors_version_is_that_of_its_release_and_what_is_none_is_refused() -> None:
    assert release("3.9.1-cp1") == (3, 9)
    for version in ("", "4", "four.one", "4.3.1 or so", "4..3", "-1.2"):
        with pytest.raises(ValueError, match="is not a version"):
            release(version)


def test_a_lane_without_a_minimum_has_the_rules_of_today() -> None:
    lanes = [Lane(lane="one", kafka_version=version) for version in (None, "3.6.2", "3.9.1", "4.3.1")]
    assert len({rules_of(lane) for lane in lanes}) == 1


@pytest.mark.parametrize(
    ("version", "mode", "elr"),
    [("3.6.2", "zookeeper", None), ("3.9.1", "kraft", None), ("4.0.0", "kraft", True), ("4.3.1", "kraft", False)],
)
def test_a_lane_with_a_minimum_has_the_rules_of_its_cluster(version: str, mode: str, elr: bool | None) -> None:
    lane = Lane(lane="a", min_insync_replicas=2, kafka_version=version, metadata_mode=mode, elr=elr)
    assert rules_of(lane) == rules_in(version, mode, elr)


def test_who_leaves_an_isr_that_is_too_small_is_eligible() -> None:
    """KIP-966: the ISR of min.insync.replicas=2 shrinks from 3 members to 2, to 1, and to none."""
    assert eligible_replicas(NOBODY, {1, 2, 3}, {1, 2}, 2) == NOBODY
    assert eligible_replicas(NOBODY, {1, 2}, {1}, 2) == {2}
    assert eligible_replicas({2}, {1}, NOBODY, 2) == {1, 2}
    assert eligible_replicas({2}, {1}, {1, 3}, 2) == NOBODY


def test_an_unclean_shutdown_makes_a_replica_ineligible_and_the_last_to_leave_is_the_last_known_leader() -> None:
    assert eligible_replicas({2}, {1}, NOBODY, 2, returning={1}) == {2}
    assert eligible_replicas({2}, {1}, {1}, 2, returning={2}) == NOBODY
    assert is_last_known_leader(1, {1}, NOBODY)
    assert not is_last_known_leader(2, {1}, NOBODY)
    assert not is_last_known_leader(2, {1, 2}, {1})


@pytest.mark.parametrize(
    ("isr", "eligible", "last", "unclean", "expected"),
    [
        ({1, 2}, {3}, NOBODY, True, ({2}, Standing.IN_SYNC)),
        (NOBODY, {2, 4}, {3}, True, ({2}, Standing.ELIGIBLE)),
        ({1}, {2}, NOBODY, False, (NOBODY, Standing.ANY)),
        ({1}, NOBODY, NOBODY, True, ({2, 3}, Standing.ANY)),
        (NOBODY, {1}, {2}, False, (NOBODY, Standing.ANY)),
        (NOBODY, {1}, {2}, True, ({2, 3}, Standing.ANY)),
        (NOBODY, NOBODY, {2}, False, ({2}, Standing.LAST_KNOWN)),
        (NOBODY, NOBODY, {1}, True, ({2, 3}, Standing.ANY)),
    ],
)
def test_the_order_of_elections(
    isr: set[int], eligible: set[int], last: set[int], unclean: bool, expected: tuple[set[int], Standing]
) -> None:
    """KIP-966, with brokers 2 and 3 alive: ISR, eligible replicas, last known leader, any."""
    assert electable({2, 3}, isr, eligible, last, unclean=unclean) == expected


@pytest.mark.parametrize(
    ("standing", "kept"),
    [(Standing.IN_SYNC, {3}), (Standing.ELIGIBLE, {3}), (Standing.LAST_KNOWN, NOBODY), (Standing.ANY, NOBODY)],
)
def test_an_unclean_election_forgets_the_eligible_replicas(standing: Standing, kept: set[int]) -> None:
    assert eligible_after_election(2, {2, 3}, standing) == kept
