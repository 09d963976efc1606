"""The steps that are faults, and their healing."""

from collections.abc import Callable

from kafka_chaos.conformance.reproduce.claims import StoryStep
from kafka_chaos.conformance.reproduce.playing.stage import TIMEOUT, Stage, TraceNotReproduced
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.coordination.leader_transfer import SessionExpiry
from kafka_chaos.faults.storage.disks import PowerLoss
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.node import Node

_FROM_NODES = "story-from-nodes"
_HEARTBEATS = "story-heartbeats"


def kill(stage: Stage, step: StoryStep) -> None:
    """SIGKILL."""
    _end(stage, step.broker, Node.kill)


def stop(stage: Stage, step: StoryStep) -> None:
    """SIGTERM: the leader moves first, if it can."""
    _end(stage, step.broker, Node.stop)
    leader = stage.story.leader(step.after)
    if leader is not None:
        stage.await_leader(leader)


def power_loss(stage: Stage, step: StoryStep) -> None:
    """The broker's machine loses power, and with it what was not flushed."""
    fault = PowerLoss(target=_target(step.broker))
    nodes = (stage.brokers[step.broker],)
    _end(stage, step.broker, lambda node: fault.inject(stage.lease.view, nodes))
    proof = fault.proof(stage.lease.view, nodes)
    if not proof.took_effect:
        raise TraceNotReproduced(f"broker {step.broker} lost no power: {proof.reason}")


def _end(stage: Stage, broker: int, end: Callable[[Node], None]) -> None:
    node = stage.brokers[broker]
    stage.away.add(broker)
    end(node)
    # What a link holds must not keep connections alive whose process is gone.
    stage.link(broker).detach()
    for part in stage.parts:
        part.producer.give_up(broker)


def flush_what_outlives(stage: Stage, number: int) -> None:
    """Let what a later loss of power leaves be on the disk before more is written; −1: before the first step."""
    state = stage.story.steps[number].after if number >= 0 else stage.story.steps[0].before
    for later in stage.story.steps[number + 1 :]:
        if later.name == "power_loss" and later.broker not in stage.away:
            disk = stage.brokers[later.broker].disk
            kept = int(later.action.detail)
            if disk is not None and len(stage.story.replica(state, later.broker).log) == kept:
                disk.flush()


def pause(stage: Stage, step: StoryStep) -> None:
    """The broker is frozen."""
    stage.away.add(step.broker)
    stage.brokers[step.broker].pause()


def partition(stage: Stage, step: StoryStep) -> None:
    """No other node reaches the broker, nor does it reach any. What clients send to it is a matter of their steps."""
    stage.away.add(step.broker)
    stage.lease.isolation(step.broker).install(stage.brokers[step.broker])
    stage.cut_off.add(step.broker)


def thaw(stage: Stage, step: StoryStep) -> None:
    """The broker runs on, and still leads."""
    rejoin(stage, step.broker)
    stage.brokers[step.broker].unpause()
    stage.away.discard(step.broker)
    stage.await_leader(step.broker)


def session_expiry(stage: Stage, step: StoryStep) -> None:
    """The broker's session ends while it runs on, and it gets another; when it follows is left open.

    ZooKeeper closes it; a controller of KRaft gets no heartbeats until it is over.
    """
    broker = step.broker
    stage.away.add(broker)
    if not stage.in_kraft:
        SessionExpiry(target=_target(broker)).inject(stage.lease.view, (stage.brokers[broker],))
        return
    for link in stage.controller_links:
        link.apply(
            _HEARTBEATS, action="hold", side="request", api="BrokerHeartbeat", sender=(stage.brokers[broker].name,)
        )
    _await_replaced(stage, broker)
    for link in stage.controller_links:
        link.lift(_HEARTBEATS, release=True)


def expire(stage: Stage, step: StoryStep) -> None:
    """The controller takes the broker for dead; where the story needs it, it runs on without hearing of it."""
    broker = step.broker
    _await_replaced(stage, broker)
    acts = any(one.broker == broker for one in stage.story.steps[step.number + 1 :])
    if acts and broker not in stage.cut_off:
        names = tuple(node.name for other, node in stage.brokers.items() if other != broker)
        stage.link(broker).apply(_FROM_NODES, action="hold", side="request", sender=names)
        for link in stage.controller_links:
            link.apply(_FROM_NODES, action="hold", side="response", sender=(stage.brokers[broker].name,))
        stage.brokers[broker].unpause()


def _await_replaced(stage: Stage, broker: int) -> None:
    """Wait until a broker's session is over: the controller has taken its partitions from it."""

    def replaced() -> bool:
        known = stage.lease.metadata.brokers()
        # In KRaft mode a broker tells, which may be the one that hears of nothing.
        gone = stage.in_kraft or (known is not None and broker not in known)
        found = [stage.lease.metadata.partition(part.topic) for part in stage.parts]
        return gone and all(one is not None and one.leader != broker for one in found)

    wait_until(replaced, f"the session of broker {broker} to end", timeout=TIMEOUT, seen=stage.isrs)


def heal(stage: Stage) -> None:
    """Take every fault back, and let every follower fetch."""
    for broker in list(stage.cut_off):
        rejoin(stage, broker)
    stage.followers.release_all()
    for link in (*map(stage.link, stage.brokers), *stage.controller_links):
        for rule in (_FROM_NODES, _HEARTBEATS):
            link.lift(rule, release=True)
    stage.lease.clean_up()
    stage.away.clear()


def rejoin(stage: Stage, broker: int) -> None:
    """End a partition."""
    if broker in stage.cut_off:
        stage.lease.isolation(broker).remove(stage.brokers[broker])
        stage.cut_off.discard(broker)


def _target(broker: int) -> Target:
    return Target(f"broker:{broker}", "broker", number=broker)
