"""Records with acks=1 that are not replicated yet are waited for: consumers do not get them before."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import BrokerUnreachable, UnsupportedMechanism
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.run.observing import collection
from kafka_chaos.harness.run.observing.collection import await_replicated
from kafka_chaos.harness.run.phase import PhaseRun

NOT_LEADER = 6
Told = Mapping[str, Mapping[int, tuple[int, int, int]]]
"""By broker's address and partition: the error, the high watermark, and the log's end."""


def asked(monkeypatch: pytest.MonkeyPatch, *answers: Told) -> Any:
    """An admin client whose brokers answer so, one answer for each time that they are all asked."""
    left = list(answers)

    class Client:
        def __init__(self, address: str, **_: Any) -> None:
            self.address = address
            if address not in left[0]:
                raise BrokerUnreachable(address)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def log_ends(self, partitions: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], tuple[int, int]]:
            return {("t", number): (0, told[2]) for number, told in left[0][self.address].items()}

        def latest_offsets(self, partitions: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], tuple[int, int]]:
            return {("t", number): told[:2] for number, told in left[0][self.address].items()}

    def addresses() -> dict[int, str]:
        if len(left) > 1 and asked_before:
            left.pop(0)
        asked_before.append(1)
        return {1: "a", 2: "b"}

    asked_before: list[int] = []
    monkeypatch.setattr(collection, "BrokerClient", Client)
    return SimpleNamespace(
        configs={}, topic=lambda lane: "t", partition_numbers=lambda lane: range(2), addresses=addresses, left=left
    )


ALONE: Told = {"a": {0: (0, 5, 5), 1: (NOT_LEADER, -1, 7)}, "b": {0: (NOT_LEADER, -1, 5), 1: (0, 7, 7)}}


def test_every_high_watermark_has_to_reach_the_log_s_end(monkeypatch: pytest.MonkeyPatch) -> None:
    behind: Told = {"a": {0: (0, 3, 5), 1: (NOT_LEADER, -1, 7)}, "b": ALONE["b"]}
    admin = asked(monkeypatch, behind, behind, ALONE)
    await_replicated(admin, ["lane"])
    assert admin.left == [ALONE]


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ({"a": {0: (0, 3, 5), 1: (0, 7, 7)}, "b": ALONE["b"]}, "t-0: high watermark 3, log end 5"),
        ({"a": ALONE["a"]}, "t-1: no broker answers as its leader"),
        # A broker that was replaced and does not know it yet may be ahead of its own log's followers.
        ({"a": {0: (0, 5, 5), 1: (0, 6, 7)}, "b": ALONE["b"]}, "t-1: high watermark 6, log end 7"),
    ],
)
def test_what_is_missing_is_told(told: Told, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = asked(monkeypatch, told)
    with pytest.raises(WaitTimeout, match=f"the records of 1 lane to be replicated after .*; seen last: {seen}$"):
        await_replicated(admin, ["lane"], timeout=0.2)


@pytest.mark.parametrize(("acks", "is_there"), [("0", [False, True]), ("all", [True, True])])
def test_where_nobody_learns_what_a_leader_drops_a_new_topic_is_there_once_it_serves(
    monkeypatch: pytest.MonkeyPatch, acks: str, is_there: list[bool]
) -> None:
    not_yet: Told = {"a": {0: (NOT_LEADER, -1, 0), 1: (NOT_LEADER, -1, 0)}, "b": {0: (0, 0, 0), 1: (NOT_LEADER, -1, 0)}}
    admin = asked(monkeypatch, not_yet, ALONE)
    admin.create_topic, admin.partitions = Mock(), Mock(return_value={0: "led by a", 1: "led by b"})
    run: Any = SimpleNamespace(admin=admin, brokers={1: "a", 2: "b"})
    lane = LaneSpec(lane="lane", acks=acks, created_at=1)
    assert [PhaseRun._try_to_create(run, lane) for _ in range(2)] == is_there


def test_a_login_that_single_requests_do_not_have_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = asked(monkeypatch, ALONE)
    monkeypatch.setattr(collection, "BrokerClient", Mock(side_effect=UnsupportedMechanism("a")))
    with pytest.raises(UnsupportedMechanism):
        await_replicated(admin, ["lane"])


@pytest.mark.cluster
def test_a_frozen_follower_in_the_isr_holds_it_up(
    cluster: Cluster, admin: ClusterAdmin, make_topic: Callable[..., str]
) -> None:
    topic = make_topic((1, 2))
    await_replicated(admin, [topic], timeout=30)
    # A client library might ask the frozen broker for metadata.
    alone: Any = SimpleNamespace(
        configs={}, topic=str, partition_numbers=lambda _: range(1), addresses=lambda: {1: cluster.addresses[1]}
    )
    follower = cluster.brokers[2]
    follower.pause()
    try:
        with cluster.broker_client(1) as client:
            # A fetch that the leader holds for the follower is answered with the first record.
            assert [client.produce(topic, f"record {number}", acks="1")[0] for number in range(3)] == [0, 0, 0]
        with pytest.raises(WaitTimeout, match=f"{topic}-0: high watermark 0, log end 3"):
            # At once: some seconds later, the follower's session is over.
            await_replicated(alone, [topic], timeout=0)
    finally:
        follower.unpause()
    await_replicated(admin, [topic], timeout=30)
    assert admin.end_offsets(topic, [0]) == {0: 3}
