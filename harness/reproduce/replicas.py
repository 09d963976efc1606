"""The steps of followers, leaders and the controller."""

from __future__ import annotations

from kafka_chaos.harness.reproduce.scene import TIMEOUT, Part, Scene
from kafka_chaos.harness.reproduce.told import ToldStep
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.lane.state import FOLLOWER


def shrink_isr(scene: Scene, number: int, step: ToldStep) -> None:
    """A follower is kept behind until the leader drops it.

    One that has everything never is: then another producer's record comes that it lacks, as the model assumes.
    """
    leader = scene.leader_before(step)
    scene.followers.hold(step.broker)
    scene.followers.await_held(step.broker, leader)
    led, held = scene.logs(leader), scene.logs(step.broker)
    for part in scene.parts:
        if len(led[part.topic]) == len(held[part.topic]) and scene.in_isr(part, step.broker):
            part.producer.send_other(leader)
    wait_until(
        lambda: not any(scene.in_isr(part, step.broker) for part in scene.parts),
        f"broker {step.broker} to leave the ISR",
        timeout=TIMEOUT,
        seen=scene.isrs,
    )


def expand_isr(scene: Scene, number: int, step: ToldStep) -> None:
    """A follower fetches until it is in the ISR, and until it has what others have sent: else it would be dropped."""
    leader = scene.leader_before(step)

    def joined() -> bool:
        led, held = scene.logs(leader), scene.logs(step.broker)
        behind = [part for part in scene.parts if len(held[part.topic]) < len(led[part.topic])]
        lags = [
            part for part in behind if _told_length(part, number, step.broker) == _told_length(part, number, leader)
        ]
        if not lags and all(scene.in_isr(part, step.broker) for part in scene.parts):
            return True
        scene.followers.pass_one(step.broker, leader)
        return False

    wait_until(joined, f"broker {step.broker} to join the ISR", timeout=TIMEOUT, seen=scene.isrs)


def _told_length(part: Part, number: int, broker: int) -> int:
    return len(part.story.replica(part.told(number).after, broker).log)


def elect(scene: Scene, number: int, step: ToldStep) -> None:
    """The controller elects the broker, which is started first if it is down."""
    if not scene.brokers[step.broker].is_running():
        restart(scene, number, step)
    scene.await_leader(step.broker)


def restart(scene: Scene, number: int, step: ToldStep) -> None:
    """The broker is back."""
    scene.lease.cluster.start_again([scene.brokers[step.broker]])
    scene.away.discard(step.broker)


def follow(scene: Scene, number: int) -> None:
    """Let every follower fetch and truncate until its log is that of the model, one answer at a time."""
    leader = scene.story.leader(scene.story.steps[number].after)
    if leader is None or leader in scene.away:
        return
    for follower in sorted(set(scene.story.names) - scene.away - {leader}):
        roles = [part.story.replica(part.told(number).after, follower).role for part in scene.parts]
        if any(role != FOLLOWER for role in roles):
            continue
        found: list[str | None] = [None]

        def follows(follower: int = follower, found: list[str | None] = found) -> bool:
            found[0] = scene.logs_differ(follower, number)
            if found[0] is None:
                return True
            scene.followers.pass_one(follower, leader)
            return False

        def differs(found: list[str | None] = found) -> str:
            return str(found[0])

        wait_until(follows, f"broker {follower} to follow as the model tells", timeout=TIMEOUT, seen=differs)
