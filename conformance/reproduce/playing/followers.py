"""Followers that fetch only when a story lets them: links hold the answers to their fetches.

A follower whose fetch is not answered gets no further, and the leader knows how far it has come: its last fetch has
arrived. One answer at a time goes on, and brings at most one batch (`replica.fetch.max.bytes` of `ONE_BATCH`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.waiting import wait_until

ONE_BATCH: Mapping[str, object] = {"replica.fetch.max.bytes": 1, "replica.fetch.response.max.bytes": 1}
"""Broker settings by which an answer to a follower has at most one batch, however small."""
_TIMEOUT = 30.0


@dataclass
class HeldFollowers:
    """The followers of a cluster with links, by broker id. Nobody is held before `hold`."""

    brokers: Mapping[int, Node]
    _rules: dict[int, int] = field(default_factory=dict)
    _number: int = 0

    def hold(self, follower: int) -> None:
        """From now on, no answer to a fetch reaches this follower."""
        if follower not in self._rules:
            self._apply(follower)

    def await_held(self, follower: int, leader: int) -> None:
        """Wait until the leader has the follower's fetch, and its answer is held."""
        wait_until(
            lambda: self._holds(follower, leader),
            f"an answer of broker {leader} to a fetch of broker {follower} to be held",
            timeout=_TIMEOUT,
        )

    def pass_one(self, follower: int, leader: int) -> None:
        """Let one answer of the leader reach the follower, and hold the next."""
        self.await_held(follower, leader)
        before = self._rules[follower]
        # The next rule is there before this one goes: what follows the answer is held, too.
        self._apply(follower)
        self._lift(follower, before, release=True)
        self.await_held(follower, leader)

    def cut(self, follower: int) -> None:
        """End the connections on which the follower waits for an answer; the answer to its next fetch is held again."""
        before = self._rules.get(follower)
        if before is not None:
            self._apply(follower)
            self._lift(follower, before, release=False)

    def release(self, follower: int) -> None:
        """Let the follower fetch as it likes."""
        rule = self._rules.pop(follower, None)
        if rule is not None:
            self._lift(follower, rule, release=True)

    def release_all(self) -> None:
        """Let all of them fetch."""
        for follower in list(self._rules):
            self.release(follower)

    def _apply(self, follower: int) -> None:
        self._number += 1
        self._rules[follower] = self._number
        name = self.brokers[follower].name
        self._at_all(
            lambda node: node.link.apply(  # type: ignore[union-attr]
                self._rule(follower, self._rules[follower]), action="hold", side="response", api="Fetch", sender=(name,)
            ),
            follower,
        )

    def _lift(self, follower: int, rule: int, *, release: bool) -> None:
        self._at_all(
            lambda node: node.link.lift(self._rule(follower, rule), release=release),  # type: ignore[union-attr]
            follower,
        )

    def _at_all(self, act: Callable[[Node], None], follower: int) -> None:
        for number, node in self.brokers.items():
            if number != follower:
                act(node)

    def _holds(self, follower: int, leader: int) -> bool:
        link = self.brokers[leader].link
        assert link is not None, "the cluster has no links"
        tally = link.tally(self._rule(follower, self._rules[follower]))
        return tally is not None and tally["taken"] > 0

    @staticmethod
    def _rule(follower: int, number: int) -> str:
        return f"story-fetch-{follower}-{number}"
