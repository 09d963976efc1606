"""The breaches of the protocol's older variants, as brokers take them: the steps of docs/model.md, one by one, and the
model's actions and states that they are.

The model's story often begins with all decisions of the controller. A controller tells only what holds now, so here
each decision comes right before the steps that need it, which leads to the same state. What is added begins with "+ ".
Every story, with what is added, is one of the model, and ends in a state that breaks the invariants.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.reference_model.explore.core import Core, CoreAction, CoreScope
from kafka_chaos.reference_model.explore.exploration import tell
from kafka_chaos.reference_model.explore.invariants import INVARIANTS
from kafka_chaos.reference_model.explore.state import Controller, CoreState, Local
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.protocol.entries import content_of

ADDED = "+ "
"""Marks a step that the model's shortest trace does without."""


@dataclass(frozen=True, slots=True)
class BreachStory:
    """A breach of `invariants` under a `variant` of the protocol, and the versions of Kafka that have the variant.

    `steps`: the model's sentences, in the order in which brokers take them. `why_added`: what they need more than the
    model's shortest story, and why. `instead`: why brokers can't take that one, and show the breach in another way.
    """

    variant: str
    invariants: tuple[str, ...]
    versions: tuple[str, ...]
    steps: tuple[str, ...]
    why_added: str = ""
    instead: str = ""

    @property
    def name(self) -> str:
        """The name by which stories differ."""
        return f"{self.variant}: {', '.join(self.invariants)}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The steps without their marks."""
        return tuple(step.removeprefix(ADDED) for step in self.steps)

    @property
    def shortest(self) -> tuple[str, ...]:
        """The steps of the model's shortest story alone."""
        return tuple(step for step in self.steps if not step.startswith(ADDED))


def _read(file: Path) -> Iterator[BreachStory]:
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    for one in content["breaches"]:
        shared = content["beginnings"].get(one.pop("begins", None), "")
        steps = (shared + one.get("steps", "")).splitlines()
        sequences = {**{key: tuple(one[key]) for key in ("invariants", "versions")}, "steps": tuple(steps)}
        yield BreachStory(**{**one, **sequences})


STORIES: Sequence[BreachStory] = tuple(_read(Path(__file__).with_name("stories.toml")))


BROKERS = (1, 2, 3)
_SCOPE = CoreScope(records=3)


class NoSuchStep(KafkaChaosError):
    """The model can't take a step of a breach."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A broker in a state of the model: `log` names its records, `leader` is 0 where it knows none."""

    log: tuple[str, ...]
    high_watermark: int
    leader: int
    leader_epoch: int

    @property
    def led_by(self) -> str:
        """Its role, for messages."""
        return f"leader {self.leader} in epoch {self.leader_epoch}"


@dataclass(frozen=True, slots=True)
class BreachStep:
    """A step: the model's action on `broker`, which may concern an `other` one (numbers as in the sentence, 0: none).

    `number`: the epoch, offset or high watermark of the sentence. `replicas`, `leader`, `leader_epoch` and `isr` are
    those of the model after it.
    """

    sentence: str
    name: str
    broker: int
    other: int
    number: int
    replicas: tuple[Replica, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]

    def replica(self, broker: int) -> Replica:
        """A broker's replica after the step."""
        return self.replicas[broker - 1]


@dataclass(frozen=True, slots=True)
class ReadBreach:
    """A story's steps, and which invariants hold no more where it ends."""

    steps: tuple[BreachStep, ...]
    broken: frozenset[str]


def read(story: BreachStory, variant: str | None = None) -> ReadBreach:
    """The story as the model takes it; `variant` has it taken by another one.

    Raises `NoSuchStep` for the first step that the variant can't take.
    """
    core = Core(PROTOCOLS[variant or story.variant], _SCOPE)
    state = core.initial()
    steps = []
    for sentence in story.sentences:
        action, state = _step(core, state, sentence)
        steps.append(_described(core, action, state, sentence))
    broken = frozenset(name for name, holds in INVARIANTS.items() if not holds(core, state))
    return ReadBreach(tuple(steps), broken)


def _step(core: Core, state: CoreState, sentence: str) -> tuple[CoreAction, CoreState]:
    for action, reached in core.steps(state):
        if tell(core, [state, reached])[0] == sentence:
            return action, reached
    raise NoSuchStep(f"{core.protocol.name}: the model can't take this step: {sentence}")


def _described(core: Core, action: CoreAction, state: CoreState, sentence: str) -> BreachStep:
    controller: Controller = core.tables.controllers[state[-2]]
    return BreachStep(
        sentence,
        action.name,
        action.broker + 1,
        action.other + 1,
        action.detail,
        tuple(_replica(core.tables.locals[state[index]]) for index in core.brokers),
        controller.leader + 1,
        controller.leader_epoch,
        tuple(index + 1 for index in core.brokers if controller.isr >> index & 1),
    )


def _replica(local: Local) -> Replica:
    names = tuple(f"m{content_of(entry)}" for entry in local.log)
    return Replica(names, local.high_watermark, local.leader + 1, local.leader_epoch)
