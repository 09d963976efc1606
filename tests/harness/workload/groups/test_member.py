"""A member reports its assignments, reads and commits, with a client that does as it is told."""

import time
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, TopicPartition

from kafka_chaos.harness.workload.groups import member as member_module
from kafka_chaos.harness.workload.groups.commits import generation_of
from kafka_chaos.harness.workload.groups.member import Member, MemberLost
from kafka_chaos.harness.workload.groups.settings import MemberSettings
from tests.harness.workload.groups.fakes import LANE, Died, FakeConsumer, FakeOrders, end_of, failure, record
from tests.plugin.application.fakes import Message

Told = list[tuple[str, dict[str, Any]]]


class Run:
    """A member that has worked through everything that its consumer had to give."""

    def __init__(self, consumer: FakeConsumer, *, commits: str = "after", **orders: Any) -> None:
        self.told: Told = []
        self.slept: list[float] = []

        def connect(configs: dict[str, Any]) -> Any:
            self.configs = configs
            return consumer

        settings = MemberSettings(
            group="g", name="g-0", lane=LANE, topic=LANE, configs={}, commits=commits, freeze_seconds=12.0
        )
        self.member = Member(
            settings,
            connect=connect,
            tell=lambda kind, **values: self.told.append((kind, values)),
            orders=FakeOrders(consumer, **orders),
            sleep=self.slept.append,
        )

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [values for one, values in self.told if one == kind]

    def order(self) -> list[str]:
        return [kind for kind, _ in self.told if kind in ("read", "commit", "committed")]


def records(partition: int, *offsets: int) -> list[Message]:
    return [record(partition, offset, (7, offset + 100)) for offset in offsets]


def test_a_batch_is_read_then_committed_and_the_rows_say_what_of_whom() -> None:
    consumer = FakeConsumer([lambda it: it.gives(0, 1), [*records(0, 3, 4), *records(1, 9)]], generation=5)
    run = Run(consumer)
    run.member.run()
    assert run.order() == ["read", "commit", "committed"]
    assigned = run.all("assigned")
    assert [(one["consumer"], one["member"], one["generation"], one["partitions"]) for one in assigned] == [
        ("g-0-1", "member-1", 5, [0, 1])
    ]
    read = run.all("read")[0]
    assert (read["consumer"], read["partition"], read["offset"]) == ("g-0-1", [0, 0, 1], [3, 4, 9])
    assert (read["producer_id"], read["seq"], read["leader_epoch"]) == ([7, 7, 7], [103, 104, 109], [4, 4, 4])
    commit, committed = run.all("commit")[0], run.all("committed")[0]
    assert (commit["consumer"], commit["offsets"], committed["errors"]) == ("g-0-1", [(0, 5), (1, 10)], [])
    assert consumer.committed_offsets == [{0: 5, 1: 10}]
    assert committed["number"] == commit["number"]
    assert committed["ns"] >= commit["ns"] >= read["ns"] >= assigned[0]["ns"]
    assert consumer.closed
    assert [one["partitions"] for one in run.all("given_back")] == [[0, 1]]


def test_what_is_read_after_the_client_has_reset_a_position_has_another_name() -> None:
    run = Run(FakeConsumer([lambda it: it.gives(0), records(0, 3, 4), records(0, 5), records(0, 4, 5)]))
    run.member.run()
    assert [one["consumer"] for one in run.all("read")] == ["g-0-1", "g-0-1", "g-0-2"]
    assert [one["consumer"] for one in run.all("assigned")] == ["g-0-1", "g-0-2"]


def test_one_that_commits_before_reads_afterwards_and_not_at_all_if_it_is_refused() -> None:
    consumer = FakeConsumer([lambda it: it.gives(0), records(0, 3, 4)])
    run = Run(consumer, commits="before")
    run.member.run()
    assert run.order() == ["commit", "committed", "read"]

    refused = FakeConsumer(
        [lambda it: it.gives(0), records(0, 3, 4)], refusal=KafkaError(KafkaError.ILLEGAL_GENERATION)
    )
    run = Run(refused, commits="before")
    run.member.run()
    assert run.order() == ["commit", "committed"]
    assert refused.sought == [(0, 3)]
    assert [one["consumer"] for one in run.all("assigned")] == ["g-0-1", "g-0-2"], "a seek begins a new name"


@pytest.mark.parametrize(
    ("code", "disturbed", "outcome"),
    [
        (KafkaError.ILLEGAL_GENERATION, False, "fail"), (KafkaError.UNKNOWN_MEMBER_ID, False, "fail"),
        (KafkaError.ILLEGAL_GENERATION, True, "info"), (KafkaError.REQUEST_TIMED_OUT, False, "info"),
        (KafkaError._TRANSPORT, False, "info"),
    ],
)  # fmt: skip
def test_what_is_known_of_a_commit_that_failed(code: int, disturbed: bool, outcome: str) -> None:
    consumer = FakeConsumer([lambda it: it.gives(0), records(0, 3)], refusal=KafkaError(code))
    run = Run(consumer)
    if disturbed:
        commit = consumer.commit

        def lose_connection(*values: Any, **named: Any) -> Any:
            run.configs["error_cb"](KafkaError(KafkaError._TRANSPORT))
            return commit(*values, **named)

        consumer.commit = lose_connection  # type: ignore[method-assign]
    run.member.run()
    assert [error[:2] for error in run.all("committed")[0]["errors"]] == [(0, outcome)]


def test_a_rebalance_gives_what_is_kept_a_new_name_and_generation() -> None:
    def again(it: FakeConsumer) -> None:
        it.takes(1)
        it.generation = 2
        it.gives()

    run = Run(FakeConsumer([lambda it: it.gives(0, 1), again, records(0, 5)]))
    run.member.run()
    assert [(one["consumer"], one["generation"], one["partitions"]) for one in run.all("assigned")] == [
        ("g-0-1", 1, [0, 1]),
        ("g-0-2", 2, [0]),
    ]
    assert [(one["consumer"], one["partitions"]) for one in run.all("given_back")] == [
        ("g-0-1", [1]), ("g-0-1", [0]), ("g-0-2", [0]),
    ]  # fmt: skip
    assert run.all("read")[0]["consumer"] == "g-0-2"


def test_the_end_is_told_once_its_batch_is_processed_and_again_after_a_rebalance() -> None:
    polls = [
        lambda it: it.gives(0, 1),
        [*records(0, 5), end_of(0, 6), end_of(1, 0)],
        [],
        lambda it: it.takes(1),
        lambda it: it.gives(),
    ]
    run = Run(FakeConsumer(polls))  # type: ignore[arg-type]
    run.member.run()
    assert [kind for kind, _ in run.told if kind in ("committed", "at_end")] == ["committed", "at_end", "at_end"]
    assert [one["offsets"] for one in run.all("at_end")] == [[(0, 6), (1, 0)], [(0, 6)]]


def test_one_that_is_refused_before_processing_is_not_at_the_end() -> None:
    polls = [lambda it: it.gives(0), [*records(0, 5), end_of(0, 6)]]
    run = Run(FakeConsumer(polls, refusal=KafkaError(KafkaError.ILLEGAL_GENERATION)), commits="before")  # type: ignore[arg-type]
    run.member.run()
    assert run.all("at_end") == []


def test_a_frozen_one_has_its_batch_and_then_commits_it() -> None:
    run = Run(FakeConsumer([lambda it: it.gives(0), records(0, 5)]), freezing=1)
    run.member.run()
    assert run.slept == [12.0]
    assert run.order() == ["read", "commit", "committed"]


@pytest.mark.parametrize(
    ("commits", "given", "order", "read"),
    [
        ("after", (3, 4, 5, 6), ["read"], [3, 4]),
        ("before", (3, 4, 5, 6), ["commit", "committed", "read"], [3, 4]),
        # Of one record alone, it comes between its processing and its commit.
        ("after", (3,), ["read"], [3]),
        ("auto", (3,), ["read"], [3]),
        ("before", (3,), ["commit", "committed", "read"], []),
    ],
)
def test_a_crash_comes_amid_processing(
    commits: str, given: tuple[int, ...], order: list[str], read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "die", Mock(side_effect=Died))
    run = Run(FakeConsumer([lambda it: it.gives(0), records(0, *given)]), commits=commits, must_crash=True)
    with pytest.raises(Died):
        run.member.run()
    assert run.order() == order
    assert run.all("read")[0]["offset"] == read
    assert run.all("notice") == [{"text": "crashes amid a batch"}]


def test_one_whose_client_has_failed_for_good_ends() -> None:
    fenced = failure(0, -1001, KafkaError._FATAL, "Static consumer fenced")
    run = Run(FakeConsumer([lambda it: it.gives(0), records(0, 3), [fenced], records(0, 4)]))
    with pytest.raises(MemberLost, match="Static consumer fenced"):
        run.member.run()
    assert [one["offset"] for one in run.all("read")] == [[3]]


def test_automatic_commits_may_have_been_asked_for_since_the_poll_before_their_last_record() -> None:
    """Several may be on their way at once, and be answered in any order."""

    def commits(*answers: int) -> Any:
        def give(it: FakeConsumer) -> None:
            for offset in answers:
                run.configs["on_commit"](None, [TopicPartition(LANE, 0, offset), TopicPartition(LANE, 1, -1001)])

        return give

    polls = [lambda it: it.gives(0, 1), wait, records(0, 3), records(0, 4, 5), records(1, 7), commits(6, 4, 99)]
    run = Run(FakeConsumer(polls), commits="auto")
    run.member.run()
    later, earlier, unknown = run.all("commit")
    assert [one["offsets"] for one in (later, earlier, unknown)] == [[(0, 6)], [(0, 4)], [(0, 99)]]
    first = run.all("read")[0]
    assert max(unknown["ns"], earlier["ns"]) < later["ns"] < first["ns"]


def test_automatic_commits_of_the_same_offset_are_rows_of_their_own() -> None:
    def commits(it: FakeConsumer) -> None:
        for _ in range(3):
            run.configs["on_commit"](None, [TopicPartition(LANE, 0, 4)])

    run = Run(FakeConsumer([lambda it: it.gives(0), records(0, 3), commits]), commits="auto")
    run.member.run()
    assert len({one["ns"] for one in run.all("commit")}) == 3


def wait(_: FakeConsumer) -> None:
    """Longer than positions are kept together."""
    time.sleep(0.15)


def test_a_generation_is_read_only_from_metadata_that_is_understood() -> None:
    assert generation_of(FakeConsumer(generation=9).consumer_group_metadata()) == 9
    assert generation_of(FakeConsumer(generation=-1).consumer_group_metadata()) is None
    assert generation_of(b"CGMDv3:....") is None
    assert generation_of(object()) is None
