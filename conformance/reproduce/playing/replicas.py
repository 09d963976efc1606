"""The steps of followers, leaders and the controller."""

from kafka_chaos.conformance.engine import await_no_difference
from kafka_chaos.conformance.reproduce.claims import StoryStep
from kafka_chaos.conformance.reproduce.playing.stage import TIMEOUT, Part, Stage
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.reference_model.lane.state import FOLLOWER


def shrink_isr(stage: Stage, step: StoryStep) -> None:
    """A follower is kept behind until the leader drops it.

    One that has everything never is: then another producer's record comes that it lacks, as the model assumes.
    """
    leader = stage.leader_before(step)
    stage.followers.hold(step.broker)
    stage.followers.await_held(step.broker, leader)
    led, held = stage.logs(leader), stage.logs(step.broker)
    for part in stage.parts:
        if len(led[part.topic]) == len(held[part.topic]) and stage.in_isr(part, step.broker):
            part.producer.send_other(leader)
    wait_until(
        lambda: not any(stage.in_isr(part, step.broker) for part in stage.parts),
        f"broker {step.broker} to leave the ISR",
        timeout=TIMEOUT,
        seen=stage.isrs,
    )


def expand_isr(stage: Stage, step: StoryStep) -> None:
    """A follower fetches until it is in the ISR, and until it has what others have sent: else it would be dropped."""
    leader = stage.leader_before(step)

    def joined() -> bool:
        led, held = stage.logs(leader), stage.logs(step.broker)
        behind = [part for part in stage.parts if len(held[part.topic]) < len(led[part.topic])]
        lags = [part for part in behind if _told_length(part, step, step.broker) == _told_length(part, step, leader)]
        if not lags and all(stage.in_isr(part, step.broker) for part in stage.parts):
            return True
        stage.followers.pass_one(step.broker, leader)
        return False

    wait_until(joined, f"broker {step.broker} to join the ISR", timeout=TIMEOUT, seen=stage.isrs)


def _told_length(part: Part, step: StoryStep, broker: int) -> int:
    return len(part.story.replica(part.step(step.number).after, broker).log)


def elect(stage: Stage, step: StoryStep) -> None:
    """The controller elects the broker, which is started first if it is down."""
    if not stage.brokers[step.broker].is_running():
        restart(stage, step)
    stage.await_leader(step.broker)


def restart(stage: Stage, step: StoryStep) -> None:
    """The broker is back."""
    stage.lease.cluster.start_again([stage.brokers[step.broker]])
    stage.away.discard(step.broker)


def follow(stage: Stage, number: int) -> None:
    """Let every follower fetch and truncate until its log is that of the model, one answer at a time."""
    leader = stage.story.leader(stage.story.steps[number].after)
    if leader is None or leader in stage.away:
        return
    for follower in sorted(set(stage.story.names) - stage.away - {leader}):
        roles = [part.story.replica(part.step(number).after, follower).role for part in stage.parts]
        if any(role != FOLLOWER for role in roles):
            continue

        def differs(follower: int = follower) -> str | None:
            found = stage.logs_differ(follower, number)
            if found is not None:
                stage.followers.pass_one(follower, leader)
            return found

        await_no_difference(differs, f"broker {follower} to follow as the model tells", timeout=TIMEOUT)
