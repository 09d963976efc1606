"""A member that is stepped: its process answers every order."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.conformance.scenario.groups.members import MemberProcess, Members
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.reference_model.lockstep.observation.clients import MemberObservation


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
    assert not Path(f"/proc/{process._process.pid}").exists() or not process.runs


def test_a_process_that_has_died_takes_no_orders_and_its_next_one_has_its_history(members: Members) -> None:
    process = process_of(members)
    process.did.append(("given", 0, 0))
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    assert members._member(process) == MemberObservation(did=(("given", 0, 0),))
    with pytest.raises(ClusterFailure, match="the process of the member"):
        process.order("tell")
    assert process_of(members).did == [("given", 0, 0)]


def test_a_process_that_does_not_answer_in_time_is_named(members: Members) -> None:
    process = process_of(members)
    members.signal(1, signal.SIGSTOP)
    with pytest.raises(ClusterFailure, match="the process of the member did not answer tell within 0 s"):
        process.order("tell", within=0.1)


class Answer:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def described(state: str, owner: int) -> Answer:
    """A group of one member with one partition, as its coordinator describes it."""
    partitions = [Answer(partition=0)] if owner else []
    member = Answer(client_id="member-1", member_id="m", assignment=Answer(topic_partitions=partitions))
    return Answer(state=Answer(name=state), members=[member])


@pytest.mark.parametrize(("state", "owners"), [("STABLE", (1,)), ("PREPARING_REBALANCING", None)])
def test_owners_are_seen_only_while_no_rebalance_goes_on(
    members: Members, monkeypatch: pytest.MonkeyPatch, state: str, owners: object
) -> None:
    process_of(members)
    members.signal(1, signal.SIGSTOP)
    monkeypatch.setattr(members, "_described", lambda: described(state, 1))
    monkeypatch.setattr(members, "_committed", lambda: (0,))
    observed = members.observe()
    assert (observed.members, observed.owners) == ((1,), owners)


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


def test_a_rebalance_that_waits_for_nobody_is_waited_for(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    process_of(members)
    monkeypatch.setattr(members, "_described", lambda: described("COMPLETING_REBALANCING", 0))
    with pytest.raises(ClusterFailure, match="the group is COMPLETING_REBALANCING"):
        members.observe()
