"""A member that is stepped: it is given a record only when it is told to poll, and its process answers every order."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_chaos.conformance.scenario.groups import member as module
from kafka_chaos.conformance.scenario.groups.member import SteppedMember
from kafka_chaos.conformance.scenario.groups.members import MemberProcess, Members
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.lane.groups import AFTER, AUTO, BEFORE, Group
from kafka_chaos.reference_model.lockstep.observation.clients import MemberObservation


class Record:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self._offset


class FakeConsumer:
    """Gives the next record of a partition that is not paused."""

    def __init__(self, configs: dict[str, Any], logger: object) -> None:
        self.paused: set[int] = set()
        self.next = {0: 0, 1: 0}
        self.assigned: list[int] = []
        self.committed: list[tuple[int, int]] = []
        self.refusal: int | None = None
        self.polls = 0

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.on_assign, self.on_revoke = on_assign, on_revoke

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = [one.partition for one in partitions]

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned += [one.partition for one in partitions]

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {one.partition for one in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {one.partition for one in partitions}

    def poll(self, timeout: float) -> Record | None:
        self.polls += 1
        for partition in self.assigned:
            if partition not in self.paused:
                self.next[partition] += 1
                return Record(self.next[partition] - 1)
        return None

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        if self.refusal is not None:
            raise KafkaException(KafkaError(self.refusal))
        self.committed += [(one.partition, one.offset) for one in offsets]
        return offsets

    def memberid(self) -> str:
        return "member-1-uuid"

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + (7).to_bytes(4, "little") + b"group"


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Consumer", FakeConsumer)
    monkeypatch.setattr(module, "GIVEN_WITHIN", 0.2)
    monkeypatch.setattr(module, "_POLL", 0.001)


def member(commits: str = AFTER, *partitions: int, incremental: bool = False) -> tuple[SteppedMember, FakeConsumer]:
    made = SteppedMember("t", commits, {}, incremental=incremental)
    client: Any = made._client
    client.on_assign(client, [TopicPartition("t", partition) for partition in partitions or (0,)])
    return made, client


def test_it_is_given_nothing_before_it_is_told_to_poll_and_then_one_record_of_that_partition() -> None:
    stepped, client = member(AFTER, 0, 1)
    stepped.serve()
    assert client.paused == {0, 1}
    assert stepped.poll(1) == {"offset": 0}
    assert client.paused == {0, 1}
    assert client.next == {0: 0, 1: 1}


def test_in_the_middle_of_a_batch_it_does_not_poll_and_tells_nothing() -> None:
    stepped, client = member()
    stepped.poll(0)
    polls = client.polls
    stepped.serve()
    assert client.polls == polls
    assert stepped.tell() == {"id": "member-1-uuid", "generation": None, "has": None}


@pytest.mark.parametrize(
    ("commits", "orders"), [(AFTER, ("process", "commit")), (BEFORE, ("commit", "process")), (AUTO, ("process",))]
)
def test_a_batch_ends_with_the_last_of_its_orders(commits: str, orders: tuple[str, ...]) -> None:
    stepped, _ = member(commits)
    stepped.poll(0)
    for order in orders:
        assert stepped.tell()["has"] is None
        if order == "process":
            assert stepped.process() == {"partition": 0, "offset": 0}
        else:
            assert stepped.commit(0) == {"offset": 1, "error": None}
            stepped.end_batch(refused=False)
    assert stepped.tell()["has"] == [0]


@pytest.mark.parametrize("commits", [AFTER, BEFORE])
def test_a_refusal_is_told_by_its_name_and_ends_the_batch(commits: str) -> None:
    stepped, client = member(commits)
    stepped.poll(0)
    client.refusal = KafkaError.ILLEGAL_GENERATION
    assert stepped.commit(0) == {"offset": 1, "error": "ILLEGAL_GENERATION"}
    stepped.end_batch(refused=True)
    assert stepped.tell()["has"] == [0]
    assert client.committed == []


@pytest.fixture
def members() -> Iterator[Members]:
    """A group whose brokers are not there: its members have no partitions."""
    with Members("127.0.0.1:1", "t", 1, Group(members=2)) as made:
        yield made


def process_of(made: Members) -> MemberProcess:
    made.join(1)
    return made._processes[1]


def test_a_process_answers_is_not_asked_while_frozen_and_ends_with_the_block(members: Members) -> None:
    process = process_of(members)
    assert process.order("tell") == {"id": None, "generation": 0, "has": []}
    members.signal(1, signal.SIGSTOP)
    assert members._member(process) == MemberObservation()
    members.signal(1, signal.SIGCONT)
    assert members._member(process) == MemberObservation(generation=0, has=())
    members.__exit__(None, None, None)
    assert not Path(f"/proc/{process._process.pid}").exists() or not process.is_running


def test_a_process_that_has_died_takes_no_orders_and_its_next_one_has_its_history(members: Members) -> None:
    process = process_of(members)
    process.did.append(("given", 0, 0))
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    assert members._member(process) == MemberObservation(did=(("given", 0, 0),))
    with pytest.raises(ClusterFailure, match="the process of the member"):
        process.order("tell")
    assert process_of(members).did == [("given", 0, 0)]


class Answer:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def described(state: str, owner: int) -> Answer:
    """A group of one member with one partition, as its coordinator describes it."""
    partitions = [Answer(partition=0)] if owner else []
    member = Answer(client_id="member-1", member_id="m", assignment=Answer(topic_partitions=partitions))
    return Answer(state=Answer(name=state), members=[member])


@pytest.mark.parametrize(("known", "members_seen"), [("m", (2,)), ("another", (1,))])
def test_a_static_member_that_was_replaced_is_known_by_the_id_of_its_successor(
    monkeypatch: pytest.MonkeyPatch, known: str, members_seen: object
) -> None:
    with Members("127.0.0.1:1", "t", 1, Group(members=2, static=True)) as made:
        made.join(1)
        made.join(2, place_of=1)
        monkeypatch.setattr(made, "_described", lambda: described("STABLE", 1))
        monkeypatch.setattr(made, "_committed", lambda: (0,))
        monkeypatch.setattr(made._processes[2], "order", lambda *_: {"id": known, "generation": 1, "has": [0]})
        observed = made.observe()
        assert (observed.members, observed.owners) == (members_seen, members_seen)
