"""Plays the steps of a story on brokers: each waits until the brokers are in the state that the model tells. A story
with a step that brokers cannot be made to take is refused, with the reason, before anything starts.

One cluster plays the same story for several lanes at once: each has its own topic and producer, and all of them share
the faults and the followers that are held. After every step the logs of all brokers that run and are reached, the
leader and the ISR have to be those of the model's state.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kafka_chaos.conformance.engine import await_no_difference
from kafka_chaos.conformance.reproduce.claims import Story, StoryStep
from kafka_chaos.conformance.reproduce.playing import clients, faults, replicas
from kafka_chaos.conformance.reproduce.playing.stage import TIMEOUT, Stage, TraceNotReproduced
from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable


def begin(stage: Stage) -> None:
    """Hold every follower, and connect the producers, before the first step."""
    for broker in stage.story.names:
        stage.followers.hold(broker)
    for follower in set(stage.story.names) - {1}:
        stage.followers.await_held(follower, 1)
    for part in stage.parts:
        part.producer.begin(1)
    faults.flush_what_outlives(stage, -1)


def take_all(stage: Stage) -> Iterator[tuple[StoryStep, float]]:
    """Let brokers take every step, each until all parts are where the story says: each that was taken, and its seconds.

    Raises `TraceNotReproduced` for the first step that brokers do not take.
    """
    for step in stage.story.steps:
        start = time.monotonic()
        try:
            ACTIONS[step.name](stage, step)
            replicas.follow(stage, step.number)
            await_no_difference(partial(_differs, stage, step.number), "brokers and model to agree", timeout=TIMEOUT)
            for part in stage.parts:
                clients.read(stage, part, part.step(step.number))
            faults.flush_what_outlives(stage, step.number)
        except (WaitTimeout, TraceNotReproduced, BrokerUnreachable) as error:
            raise TraceNotReproduced(f"step {step.number + 1} ({step.sentence}): {error}") from error
        yield step, time.monotonic() - start


def _differs(stage: Stage, number: int) -> str | None:
    there = sorted(set(stage.story.names) - stage.away)
    with ThreadPoolExecutor(max(1, len(there))) as threads:
        logs = list(threads.map(lambda broker: stage.logs_differ(broker, number), there))
    return next((one for one in (*logs, stage.isrs_differ(number)) if one is not None), None)


def finish(stage: Stage) -> None:
    """End the producers, heal everything, let another producer add a last record, and consumers read to the end."""
    for part in stage.parts:
        part.producer.close()
    clients.lift_queued(stage, release=False)
    faults.heal(stage)
    for part in stage.parts:
        stage.lease.admin.await_full_isr([part.topic])
        # Where nothing is acknowledged in the end, nobody could tell a log that is lost from an empty one.
        part.producer.send_last(stage.lease.admin.await_leader(part.topic, 0))
        clients.read_to_end(stage, part)


def _nothing(stage: Stage, step: StoryStep) -> None:
    """Steps of the producer or of followers on their own, or part of the next step: only the effect can be observed."""


Act = Callable[[Stage, StoryStep], None]

ACTIONS: Mapping[str, Act] = {
    "append": clients.append,
    "queue": clients.queue,
    "acknowledge": clients.acknowledge,
    "not_enough_replicas": clients.not_enough_replicas,
    "not_enough_replicas_after_append": clients.not_enough_replicas_after_append,
    "out_of_order_sequence": _nothing,
    "timeout": clients.lose_answers,
    "close": clients.lose_answers,
    "no_leader": clients.no_leader,
    "give_up": _nothing,
    "fetch": _nothing,
    "shrink_isr": replicas.shrink_isr,
    "expand_isr": replicas.expand_isr,
    "elect": replicas.elect,
    "elect_eligible": replicas.elect,
    "elect_last_known": replicas.elect,
    "elect_unclean": replicas.elect,
    "restart": replicas.restart,
    "kill": faults.kill,
    "stop": faults.stop,
    "stop_and_move": faults.stop,
    "power_loss": faults.power_loss,
    "pause": faults.pause,
    "thaw": faults.thaw,
    "expire": faults.expire,
    "partition": faults.partition,
    "partition_from_clients": faults.partition,
    "session_expiry": faults.session_expiry,
}
"""How brokers are made to take each of the model's actions."""


AT_ONCE = "not refused: brokers from 2.5 on that know nothing of a producer take the record at once (KAFKA-15591)"


def remark(story: Story, step: StoryStep) -> str | None:
    """The difference between a step of the model and the same on brokers, if there is any."""
    return AT_ONCE if step.name == "out_of_order_sequence" and taken_at_once(story, step) else None


def remarks(story: Story) -> str | None:
    """The remark on a story that is played, if there is one."""
    return next((found for step in story.steps if (found := remark(story, step))), None)


def taken_at_once(story: Story, refused: StoryStep) -> bool:
    """Whether a refusal of a sequence number is followed by the append of the same record on the same broker.

    Kafka from 2.5 on takes the record at once there (KAFKA-15591): the story goes on as if it had been sent again.
    """
    following = story.steps[refused.number + 1 : refused.number + 2]
    return [(one.name, one.broker, one.record) for one in following] == [("append", refused.broker, refused.record)]


def refusal(story: Story) -> str | None:
    """Why a story can't be played, or None if it can."""
    for step in story.steps:
        reason = _refused(story, step)
        if reason is not None:
            return f"step {step.number + 1} ({step.sentence}) {reason}"
    return None


def _refused(story: Story, step: StoryStep) -> str | None:
    if step.name not in ACTIONS:
        return "is not one that brokers can be made to take so far"
    if step.name == "out_of_order_sequence" and not taken_at_once(story, step):
        return (
            "is the promise: brokers from 2.5 on that know nothing of a producer take any sequence number "
            "(KAFKA-15591), so that none refuses this record"
        )
    if step.name == "acknowledge" and _was_queued(story, step):
        return "answers a request that was overtaken, on a connection that its producer has given up"
    return None


def _was_queued(story: Story, step: StoryStep) -> bool:
    """Whether the last attempt of an acknowledged record had waited in a socket."""
    attempts = [one for one in story.steps[: step.number] if one.name == "append" and one.record == step.record]
    return bool(attempts) and attempts[-1].action.from_socket


def elected(story: Story) -> tuple[int, ...]:
    """The brokers that come to lead, in their order."""
    found = [story.leader(step.after) for step in story.steps]
    return tuple(dict.fromkeys(broker for broker in found if broker is not None))


def assignment(story: Story) -> tuple[int, ...]:
    """The order of replicas by which controllers elect whom the story tells: broker 1, then those that come to lead."""
    return tuple(dict.fromkeys((1, *elected(story), *sorted(story.names))))
