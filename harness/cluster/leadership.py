"""Who leads which partition, as brokers tell clients, and leadership that moves on request (KIP-455, KIP-460)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping

from kafka_chaos.faults.cluster import Leadership, Partition
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.errors import WaitTimeout
from kafka_chaos.harness.waiting import wait_until

Connect = Callable[[int], BrokerClient]
"""A connection to a broker, by its id."""

_PATIENCE = 10.0
_AGAIN = 0.2


def newest_leadership(brokers: Iterable[int], connect: Connect) -> dict[Partition, Leadership]:
    """Of each partition what these brokers tell, of the highest leader epoch; empty where nobody answers."""
    newest: dict[Partition, Leadership] = {}
    for broker in brokers:
        with contextlib.suppress(BrokerUnreachable), connect(broker) as client:
            for partition, state in client.leadership().items():
                known = newest.get(partition)
                if known is None or known.leader_epoch < state.leader_epoch:
                    newest[partition] = state
    return newest


def transfer(
    heirs: Mapping[Partition, int],
    leadership: Callable[[], Mapping[Partition, Leadership]],
    connect: Connect,
    controller: Callable[[], int | None],
) -> None:
    """Let each partition be led by its heir, one of its replicas: the first of a new order, then the one elected.

    `controller` names a broker that takes such requests. Asked again for a few seconds: a controller may move
    meanwhile. What has not moved by then stays as it is, as where the heir has failed.
    """

    def all_moved() -> bool:
        now = leadership()
        left = {place: heir for place, heir in heirs.items() if place not in now or now[place].leader != heir}
        asked = controller() if left else None
        if asked is not None:
            with contextlib.suppress(BrokerUnreachable), connect(asked) as client:
                client.wait(_PATIENCE)
                _elect(client, {place: heir for place, heir in left.items() if place in now}, now)
        return not left

    with contextlib.suppress(WaitTimeout):
        wait_until(all_moved, "leaders to move", timeout=_PATIENCE, interval=_AGAIN)


def _elect(client: BrokerClient, heirs: Mapping[Partition, int], now: Mapping[Partition, Leadership]) -> None:
    for (topic, number), heir in heirs.items():
        replicas = now[topic, number].replicas
        if replicas[0] != heir:
            client.reassign(topic, (heir, *(one for one in replicas if one != heir)), partition=number)
    for topic, number in heirs:
        client.elect_preferred(topic, partition=number)
