"""Where partitions' logs end is asked for by lane: a topic may have the name of another lane."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_chaos.harness.cluster.admin import ClusterAdmin, PartitionState
from kafka_chaos.harness.cluster.storage.collect import LeaderEnd, StoredLane
from kafka_chaos.harness.run.observing import collection
from kafka_chaos.harness.run.observing.collection import leader_ends

STATES = {"b": PartitionState(1, (1, 2), (1, 2)), "c": PartitionState(3, (3, 1), (3, 1))}
ENDS = {"b": 20, "c": 30}


class Admin(ClusterAdmin):
    """An admin client without a cluster; lane a has the topic b, and lane b the topic c."""

    def __init__(self) -> None:
        self._topics = {"a": "b", "b": "c"}

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        return {0: STATES[self.topic(topic)]}

    def end_offsets(
        self, topic: str, partitions: Sequence[int], *, committed: bool = False, timeout: float = 30
    ) -> dict[int, int]:
        return {number: ENDS[self.topic(topic)] for number in partitions}


def test_a_topic_may_have_the_name_of_another_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[str] = []
    monkeypatch.setattr(collection, "await_replicated", lambda admin, lanes: awaited.extend(map(admin.topic, lanes)))
    found = leader_ends(Admin(), [StoredLane("a", "b", 1), StoredLane("b", "c", 1)])
    assert awaited == ["b", "c"]
    assert found == {("b", 0): LeaderEnd(1, 20, (1, 2)), ("c", 0): LeaderEnd(3, 30, (3, 1))}
