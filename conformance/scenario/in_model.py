"""The model's counterpart of each fault of a `Stage`: its external actions, in order."""

from collections.abc import Iterable

from kafka_chaos.reference_model.lockstep.cluster_model import Step, step

Cut = tuple[str, int, int]
"""A channel that is closed, from a broker to a broker."""


def start(broker: int, lifted: Iterable[Cut]) -> tuple[Step, ...]:
    """A restart, which ends the cuts that `lifted` found."""
    return (step("start", broker=broker), *heal(*lifted))


def lifted(cuts: Iterable[Cut], broker: int) -> tuple[Cut, ...]:
    """The cuts at a broker, which end with its restart: packet filter rules go with the container's network."""
    return tuple(cut for cut in cuts if cut[2] == broker)


def pause(broker: int) -> tuple[Step, ...]:
    """A freeze that outlasts the session."""
    return (step("pause", broker=broker), step("expire_session", broker=broker))


def cut(*cuts: Cut) -> tuple[Step, ...]:
    """Closed channels."""
    return tuple(step("cut", channel=channel, source=source, target=target) for channel, source, target in cuts)


def heal(*cuts: Cut) -> tuple[Step, ...]:
    """Channels that are open again."""
    return tuple(step("heal", channel=channel, source=source, target=target) for channel, source, target in cuts)
