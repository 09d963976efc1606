"""Replicas that move to other brokers on request, and moves that are awaited or cancelled (KIP-455)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping

from kafka_chaos.faults.cluster import Partition
from kafka_chaos.harness.cluster.broker.leadership import Ask, reassign, reassignments
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.errors import WaitTimeout
from kafka_chaos.harness.waiting import wait_until

_PATIENCE = 10.0
_AGAIN = 0.2
_MOVES_TIMEOUT = 120.0
_CANCEL_TIMEOUT = 30.0


def moving(ask: Ask) -> frozenset[Partition] | None:
    """The partitions whose replicas are being moved; None where nobody tells for a few seconds."""
    found: frozenset[Partition] | None = None

    def told() -> bool:
        nonlocal found
        with contextlib.suppress(BrokerUnreachable), ask() as client:
            found = reassignments(client)
        return found is not None

    with contextlib.suppress(WaitTimeout):
        wait_until(told, "the list of reassignments", timeout=_PATIENCE, interval=_AGAIN)
    return found


def move(replicas: Mapping[Partition, tuple[int, ...] | None], ask: Ask) -> None:
    """Ask for these replicas of each partition, preferred leader first; None ends what moves it now.

    Asked again for a few seconds: a controller may move meanwhile. What is refused by then stays as it is.
    """
    left = dict(replicas)

    def all_taken() -> bool:
        with contextlib.suppress(BrokerUnreachable), ask() as client:
            client.wait(_PATIENCE)
            refused = reassign(client, left)
            for partition in left.keys() - refused.keys():
                del left[partition]
        return not left

    with contextlib.suppress(WaitTimeout):
        wait_until(all_taken, "replicas to be reassigned", timeout=_PATIENCE, interval=_AGAIN)


def end_moves(partitions: Collection[Partition], ask: Ask) -> None:
    """Wait until none of these partitions moves; a move that takes too long is cancelled.

    Raises `WaitTimeout` where a partition moves even then.
    """
    ongoing = set(partitions)

    def ended() -> bool:
        told = moving(ask)
        if told is not None:
            ongoing.intersection_update(told)
        return told is not None and not ongoing

    def seen() -> str:
        return ", ".join(f"{topic}-{number}" for topic, number in sorted(ongoing))

    what = "replicas to be where they were reassigned to"
    with contextlib.suppress(WaitTimeout):
        wait_until(ended, what, timeout=_MOVES_TIMEOUT, interval=_AGAIN, seen=seen)
        return
    move(dict.fromkeys(ongoing), ask)
    wait_until(ended, "cancelled reassignments to end", timeout=_CANCEL_TIMEOUT, interval=_AGAIN, seen=seen)
