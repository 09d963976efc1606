"""The steps that are faults, and their healing."""

from __future__ import annotations

from collections.abc import Callable

from kafka_chaos.faults.coordination.session_expiry import SessionExpiry
from kafka_chaos.faults.storage.power_loss import PowerLoss
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.reproduce.scene import TIMEOUT, Scene, StoryLeft
from kafka_chaos.harness.reproduce.told import ToldStep
from kafka_chaos.harness.waiting import wait_until

_FROM_NODES = "story-from-nodes"
_HEARTBEATS = "story-heartbeats"


def kill(scene: Scene, number: int, step: ToldStep) -> None:
    """SIGKILL."""
    _end(scene, step.broker, Node.kill)


def stop(scene: Scene, number: int, step: ToldStep) -> None:
    """SIGTERM: the leader moves first, if it can."""
    _end(scene, step.broker, Node.stop)
    leader = scene.story.leader(step.after)
    if leader is not None:
        scene.await_leader(leader)


def power_loss(scene: Scene, number: int, step: ToldStep) -> None:
    """The broker's machine loses power, and with it what was not flushed."""
    fault = PowerLoss(target=_target(step.broker))
    nodes = (scene.brokers[step.broker],)
    _end(scene, step.broker, lambda node: fault.inject(scene.lease.view, nodes))
    proof = fault.proof(scene.lease.view, nodes)
    if not proof.took_effect:
        raise StoryLeft(f"broker {step.broker} lost no power: {proof.reason}")


def _end(scene: Scene, broker: int, end: Callable[[Node], None]) -> None:
    node = scene.brokers[broker]
    scene.away.add(broker)
    end(node)
    # What a link holds must not keep connections alive whose process is gone.
    scene.link(broker).detach()
    for part in scene.parts:
        part.producer.give_up(broker)


def flush_what_outlives(scene: Scene, number: int) -> None:
    """Let what a later loss of power leaves be on the disk before more is written; −1: before the first step."""
    state = scene.story.steps[number].after if number >= 0 else scene.story.steps[0].before
    for later in scene.story.steps[number + 1 :]:
        if later.name == "power_loss" and later.broker not in scene.away:
            disk = scene.brokers[later.broker].disk
            kept = int(later.action.detail)
            if disk is not None and len(scene.story.replica(state, later.broker).log) == kept:
                disk.flush()


def pause(scene: Scene, number: int, step: ToldStep) -> None:
    """The broker is frozen."""
    scene.away.add(step.broker)
    scene.brokers[step.broker].pause()


def partition(scene: Scene, number: int, step: ToldStep) -> None:
    """No other node reaches the broker, nor does it reach any. What clients send to it is a matter of their steps."""
    scene.away.add(step.broker)
    _filter(scene, step.broker, "-I")
    scene.cut_off.add(step.broker)


def thaw(scene: Scene, number: int, step: ToldStep) -> None:
    """The broker runs on, and still leads."""
    rejoin(scene, step.broker)
    scene.brokers[step.broker].unpause()
    scene.away.discard(step.broker)
    scene.await_leader(step.broker)


def session_expiry(scene: Scene, number: int, step: ToldStep) -> None:
    """The broker's session ends while it runs on, and it gets another; when it follows is left open.

    ZooKeeper closes it; a controller of KRaft gets no heartbeats until it is over.
    """
    broker = step.broker
    scene.away.add(broker)
    if not scene.in_kraft:
        SessionExpiry(target=_target(broker)).inject(scene.lease.view, (scene.brokers[broker],))
        return
    for link in scene.controller_links:
        link.apply(
            _HEARTBEATS, action="hold", side="request", api="BrokerHeartbeat", sender=(scene.brokers[broker].name,)
        )
    _await_replaced(scene, broker)
    for link in scene.controller_links:
        link.lift(_HEARTBEATS, release=True)


def expire(scene: Scene, number: int, step: ToldStep) -> None:
    """The controller takes the broker for dead; where the story needs it, it runs on without hearing of it."""
    broker = step.broker
    _await_replaced(scene, broker)
    acts = any(one.broker == broker for one in scene.story.steps[number + 1 :])
    if acts and broker not in scene.cut_off:
        names = tuple(node.name for other, node in scene.brokers.items() if other != broker)
        scene.link(broker).apply(_FROM_NODES, action="hold", side="request", sender=names)
        for link in scene.controller_links:
            link.apply(_FROM_NODES, action="hold", side="response", sender=(scene.brokers[broker].name,))
        scene.brokers[broker].unpause()


def _await_replaced(scene: Scene, broker: int) -> None:
    """Wait until a broker's session is over: the controller has taken its partitions from it."""

    def replaced() -> bool:
        known = scene.lease.metadata.brokers()
        # In KRaft mode a broker tells, which may be the one that hears of nothing.
        gone = scene.in_kraft or (known is not None and broker not in known)
        found = [scene.lease.metadata.partition(part.topic) for part in scene.parts]
        return gone and all(one is not None and one.leader != broker for one in found)

    wait_until(replaced, f"the session of broker {broker} to end", timeout=TIMEOUT, seen=scene.isrs)


def heal(scene: Scene) -> None:
    """Take every fault back, and let every follower fetch."""
    for broker in list(scene.cut_off):
        rejoin(scene, broker)
    scene.followers.release_all()
    for link in (*map(scene.link, scene.brokers), *scene.controller_links):
        for rule in (_FROM_NODES, _HEARTBEATS):
            link.lift(rule, release=True)
    scene.lease.clean_up()
    scene.away.clear()


def rejoin(scene: Scene, broker: int) -> None:
    """End a partition."""
    if broker in scene.cut_off:
        _filter(scene, broker, "-D")
        scene.cut_off.discard(broker)


def _filter(scene: Scene, broker: int, change: str) -> None:
    """Insert (`-I`) or delete (`-D`) the rules that drop everything between a broker and every other node."""
    node = scene.brokers[broker]
    rules = [
        f"iptables -w {change} {hook} {side} {other.address} -j DROP"
        for other in scene.lease.cluster.nodes
        if other is not node
        for hook, side in (("INPUT", "-s"), ("OUTPUT", "-d"))
    ]
    node.must_execute("sh", "-c", " && ".join(rules))


def _target(broker: int) -> Target:
    return Target(f"broker:{broker}", "broker", number=broker)
