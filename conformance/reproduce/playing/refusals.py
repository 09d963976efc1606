"""What brokers cannot be made to take: the steps of a story that are refused, each with its reason, before anything
starts."""

from __future__ import annotations

from kafka_chaos.conformance.reproduce.playing.actions import ACTIONS
from kafka_chaos.conformance.reproduce.stories.reading import Story, StoryStep

AT_ONCE = "not refused: brokers from 2.5 on that know nothing of a producer take the record at once (KAFKA-15591)"


def remark(story: Story, number: int) -> str | None:
    """What is different on brokers in a step that is played, if something is."""
    refuses = story.steps[number].name == "out_of_order_sequence"
    return AT_ONCE if refuses and taken_at_once(story, number) else None


def remarks(story: Story) -> str | None:
    """The remark on a story that is played, if there is one."""
    return next((found for number in range(len(story.steps)) if (found := remark(story, number))), None)


def taken_at_once(story: Story, number: int) -> bool:
    """Whether a refusal of a sequence number is followed by the append of the same record on the same broker.

    Kafka from 2.5 on takes the record at once there (KAFKA-15591): the story goes on as if it had been sent again.
    """
    refused, *later = story.steps[number:]
    follows = later[0] if later else None
    return (
        follows is not None
        and follows.name == "append"
        and (follows.broker, follows.record) == (refused.broker, refused.record)
    )


def refusal(story: Story) -> str | None:
    """Why a story can't be played, or None if it can."""
    for number, step in enumerate(story.steps):
        reason = _refused(story, number, step)
        if reason is not None:
            return f"step {number + 1} ({step.sentence}) {reason}"
    return None


def _refused(story: Story, number: int, step: StoryStep) -> str | None:
    if step.name not in ACTIONS:
        return "is not one that brokers can be made to take so far"
    if step.name == "out_of_order_sequence" and not taken_at_once(story, number):
        return (
            "is the promise: brokers from 2.5 on that know nothing of a producer take any sequence number "
            "(KAFKA-15591), so that none refuses this record"
        )
    if step.name == "acknowledge" and _was_queued(story, number, step):
        return "answers a request that was overtaken, on a connection that its producer has given up"
    return None


def _was_queued(story: Story, number: int, step: StoryStep) -> bool:
    """Whether the last attempt of an acknowledged record had waited in a socket."""
    attempts = [one for one in story.steps[:number] if one.name == "append" and one.record == step.record]
    return bool(attempts) and attempts[-1].action.from_socket


def elected(story: Story) -> tuple[int, ...]:
    """The brokers that come to lead, in their order."""
    found = [story.leader(step.after) for step in story.steps]
    return tuple(dict.fromkeys(broker for broker in found if broker is not None))


def assignment(story: Story) -> tuple[int, ...]:
    """The order of replicas by which controllers elect whom the story tells: broker 1, then those that come to lead."""
    return tuple(dict.fromkeys((1, *elected(story), *sorted(story.names))))
