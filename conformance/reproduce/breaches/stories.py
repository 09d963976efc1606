"""The breaches of the protocol's older variants, as brokers take them: the steps of docs/model.md, one by one.

The model's story often begins with all decisions of the controller. A controller tells only what holds now, so here
each decision comes right before the steps that need it, which leads to the same state. What is added begins with "+ ".
Every story, with what is added, is one of the model, and ends in a state that breaks the invariants.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ADDED = "+ "
"""What marks a step that the model's shortest story does without."""


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
        """What tells stories apart."""
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
