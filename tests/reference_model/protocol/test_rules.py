"""Each rule in `protocol/` by itself, as the KIPs state it."""

import pytest

from kafka_chaos.reference_model.protocol import isr, leaders
from kafka_chaos.reference_model.protocol.axioms import Axiom
from kafka_chaos.reference_model.protocol.entries import EPOCH_SHIFT, content_of, entry_of, leader_epoch_of
from kafka_chaos.reference_model.protocol.quorum import forces_election
from kafka_chaos.reference_model.protocol.sequences import Batch, Refusal, check_batch, renews_epoch


def test_a_clean_leader_keeps_the_live_isr_and_another_starts_alone() -> None:
    assert leaders.isr_of_elected(2, [2, 3], [1, 2, 3], clean=True) == [2, 3]
    assert leaders.isr_of_elected(1, [1, 3], [2], clean=False) == [1]


def test_leader_epochs_fence_followers_since_kip_320_and_clients_that_know_a_later_one() -> None:
    assert [leaders.serves(*epochs, checks_epoch=True) for epochs in ((2, 2), (2, 1), (1, 2))] == [True, False, False]
    assert leaders.serves(2, 1, checks_epoch=False)
    assert [leaders.may_be_addressed(epoch, 1) for epoch in (0, 1, 2)] == [False, True, True]


def test_a_follower_joins_at_the_high_watermark_and_epoch_start_and_the_last_member_stays() -> None:
    assert [isr.may_join_isr(end, 2, 3) for end in (1, 2, 3)] == [False, False, True]
    assert [isr.may_join_isr(end, 3, 2) for end in (2, 3)] == [False, True]
    assert [isr.may_leave_isr(size) for size in (1, 2)] == [False, True]
    assert [isr.lags(end, 2) for end in (-1, 1, 2)] == [True, True, False]


def test_the_high_watermark_is_the_least_log_end_never_falls_and_waits_below_the_minimum() -> None:
    assert [isr.high_watermark(known, [3, 2, 5]) for known in (0, 4)] == [2, 4]
    assert [isr.is_committed(offset, 2) for offset in (1, 2)] == [True, False]
    assert [isr.refuses_append(size, 2) for size in (1, 2, 3)] == [True, False, False]
    assert [isr.watermark_waits(size, 2) for size in (1, 2, 3)] == [True, False, False]


def test_an_entry_keeps_its_content_below_its_leader_epoch() -> None:
    entry = entry_of(200, 3)
    assert (leader_epoch_of(entry), content_of(entry)) == (3, 200)
    assert entry_of(entry, 5) == entry_of(200, 5) == (5 << EPOCH_SHIFT) + 200
    assert content_of(entry_of((1 << EPOCH_SHIFT) - 1, 1)) == (1 << EPOCH_SHIFT) - 1


def test_an_axiom_fails_with_the_faults_that_break_it() -> None:
    axiom = Axiom("all is well", "the sky falls", "an old tale", frozenset({"storm", "quake"}))
    assert axiom.why_broken(["rain", "storm"]) == ("With storm, an axiom of the model fails: the sky falls.",)
    assert axiom.why_broken(["storm", "quake"]) == ("With quake, storm, an axiom of the model fails: the sky falls.",)
    assert axiom.why_broken(["rain"]) == ()
    assert axiom.sentences() == (
        "An axiom of the model, not a result of the search: all is well (an old tale).",
        "It does not hold where the sky falls.",
    )


KNOWN = [Batch(0, 0, 10), Batch(0, 1, 11), Batch(1, 0, 12), Batch(1, 1, 13)]


@pytest.mark.parametrize(
    ("epoch", "sequence", "expected"),
    [
        (1, 2, None), (1, 1, 13), (0, 1, 11), (1, 3, Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 2, Refusal.INVALID_PRODUCER_EPOCH), (2, 0, None), (2, 1, Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)  # fmt: skip
def test_a_batch_is_next_in_its_epoch_or_first_in_a_new_one(epoch: int, sequence: int, expected: object) -> None:
    assert check_batch(KNOWN, epoch, sequence) == expected


def test_a_sixth_batch_makes_the_first_one_forgotten() -> None:
    assert check_batch([Batch(0, n, n) for n in range(5)], 0, 0) == 0
    assert check_batch([Batch(0, n, n) for n in range(6)], 0, 0) is Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_renews_its_epoch_only_behind_what_was_acknowledged() -> None:
    out_of_order = Refusal.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert renews_epoch(out_of_order, follows_acknowledged=True)
    assert not renews_epoch(out_of_order, follows_acknowledged=False)
    assert not renews_epoch(Refusal.INVALID_PRODUCER_EPOCH, follows_acknowledged=True)


TRUTHS = [(True, True), (True, False), (False, True), (False, False)]


def test_who_has_campaigned_alone_disturbs_unless_it_asks_first() -> None:
    assert [forces_election(campaigned, asks_first=asks) for campaigned, asks in TRUTHS] == [False, True, False, False]
