"""The breaches of the protocol's older variants, as brokers take them: the steps of docs/model.md, one by one.

The model's story often begins with all decisions of the controller. A controller tells only what holds now, so here
each decision comes right before the steps that need it, which leads to the same state. What is added begins with "+ ".
Every story, with what is added, is one of the model, and ends in a state that breaks the invariants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ADDED = "+ "
"""What marks a step that the model's shortest story does without."""

_NOTED_LATE = (
    "before 2.0.1, a leader notes its leader epoch with its first record in it, and not when it is elected "
    "(KAFKA-7415): broker 1 appends a record in epoch 2, before it is asked where epoch 1 ends"
)


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


WEAK_AND_STRONG = ("weak_isr", "strong_isr")
KEPT = ("committed_records_kept",)
AGREE = ("followers_agree",)


def _story(
    variant: str,
    invariants: tuple[str, ...],
    versions: tuple[str, ...],
    steps: str,
    why_added: str = "",
    instead: str = "",
) -> BreachStory:
    return BreachStory(variant, invariants, versions, tuple(steps.strip().splitlines()), why_added, instead)


_SAME_LEADER = (
    "in the model's story a follower truncates when it learns of a new leader epoch of the leader that it follows "
    "already. Brokers skip that (`Partition.makeFollower` tells them that the leader is the same). So here broker 3 "
    "learns of another leader, and broker 2 has to be alive and in sync until it is elected"
)
_DROPPED = """
The controller makes broker 1 the leader, leader epoch 0.
Broker 1 learns that it leads in epoch 0.
Broker 2 learns that it follows broker 1 in epoch 0.
Broker 3 learns that it follows broker 1 in epoch 0.
Broker 1 appends m0 at offset 0.
Broker 2 fetches offset 0 from broker 1; its high watermark is 0.
Broker 3 fetches offset 0 from broker 1; its high watermark is 0.
Broker 1 advances its high watermark to 1.
The controller makes broker 2 the leader, leader epoch 1.
Broker 3 learns that it follows broker 2 in epoch 1 and truncates m0.
""".strip()

_KEPT_BY_NOBODY = """
The controller makes broker 1 the leader, leader epoch 0.
Broker 1 learns that it leads in epoch 0.
Broker 2 learns that it follows broker 1 in epoch 0.
Broker 1 appends m0 at offset 0.
Broker 2 fetches offset 0 from broker 1; its high watermark is 0.
Broker 1 drops broker 3 from the ISR.
Broker 1 advances its high watermark to 1.
The controller makes broker 2 the leader, leader epoch 1.
Broker 2 learns that it leads in epoch 1.
Broker 3 learns that it follows broker 2 in epoch 1.
Broker 2 takes broker 3 into the ISR.
The controller makes broker 3 the leader, leader epoch 2.
Broker 3 learns that it leads in epoch 2.
"""

_BEFORE_KIP_101 = "truncate-to-high-watermark", ("0.10.2.2",)
_KIP_101 = "kip101", ("1.1.1", "1.0.2", "0.11.0.3")
_KIP_279 = "kip279", ("2.0.0",)

STORIES: Sequence[BreachStory] = (
    _story(_BEFORE_KIP_101[0], WEAK_AND_STRONG, _BEFORE_KIP_101[1], _DROPPED, instead=_SAME_LEADER),
    _story(
        _BEFORE_KIP_101[0],
        KEPT,
        _BEFORE_KIP_101[1],
        f"""{_DROPPED}
The controller makes broker 3 the leader, leader epoch 2.
Broker 3 learns that it leads in epoch 2.
""",
        instead=_SAME_LEADER,
    ),
    _story(
        _BEFORE_KIP_101[0],
        AGREE,
        _BEFORE_KIP_101[1],
        """
The controller makes broker 1 the leader, leader epoch 0.
Broker 1 learns that it leads in epoch 0.
The controller makes broker 2 the leader, leader epoch 1.
The controller makes broker 1 the leader, leader epoch 2.
Broker 2 learns that it follows broker 1 in epoch 2.
Broker 1 appends m0 at offset 0.
Broker 2 fetches offset 0 from broker 1; its high watermark is 0.
Broker 1 learns that it follows broker 2 in epoch 1 and truncates m0.
Broker 1 learns that it leads in epoch 2.
""",
    ),
    _story(
        _KIP_101[0],
        WEAK_AND_STRONG,
        _KIP_101[1],
        """
The controller makes broker 1 the leader, leader epoch 0.
Broker 1 learns that it leads in epoch 0.
+ Broker 3 learns that it follows broker 1 in epoch 0.
Broker 1 appends m0 at offset 0.
Broker 1 drops broker 2 from the ISR.
The controller makes broker 3 the leader, leader epoch 1.
Broker 3 learns that it leads in epoch 1.
Broker 3 appends m1 at offset 0.
The controller makes broker 1 the leader, leader epoch 2.
+ Broker 1 learns that it leads in epoch 2.
+ Broker 1 appends m2 at offset 1.
Broker 3 learns that it follows broker 1 in epoch 2.
Broker 1 advances its high watermark to 1.
""",
        f"broker 3 stays in the ISR only while it fetches, and {_NOTED_LATE}",
    ),
    _story(_KIP_101[0], KEPT, _KIP_101[1], _KEPT_BY_NOBODY),
    _story(
        _KIP_101[0],
        AGREE,
        _KIP_101[1],
        """
The controller makes broker 1 the leader, leader epoch 0.
Broker 1 learns that it leads in epoch 0.
Broker 1 appends m0 at offset 0.
The controller makes broker 2 the leader, leader epoch 1.
Broker 2 learns that it leads in epoch 1.
Broker 2 appends m1 at offset 0.
The controller makes broker 1 the leader, leader epoch 2.
Broker 1 learns that it leads in epoch 2.
+ Broker 1 appends m2 at offset 1.
Broker 2 learns that it follows broker 1 in epoch 2.
""",
        _NOTED_LATE,
    ),
    _story(
        _KIP_279[0],
        WEAK_AND_STRONG,
        _KIP_279[1],
        """
The controller makes broker 1 the leader, leader epoch 0.
+ Broker 1 learns that it leads in epoch 0.
Broker 3 learns that it follows broker 1 in epoch 0.
The controller makes broker 2 the leader, leader epoch 1.
Broker 2 learns that it leads in epoch 1.
The controller makes broker 1 the leader, leader epoch 2.
Broker 1 learns that it leads in epoch 2.
Broker 1 appends m0 at offset 0.
Broker 3 fetches offset 0 from broker 1; its high watermark is 0.
Broker 1 drops broker 2 from the ISR.
Broker 1 advances its high watermark to 1.
Broker 3 learns that it follows broker 2 in epoch 1 and truncates m0.
""",
        "broker 3 follows broker 1 from the beginning, which therefore leads from the beginning",
    ),
    _story(_KIP_279[0], KEPT, _KIP_279[1], _KEPT_BY_NOBODY),
    _story(
        _KIP_279[0],
        AGREE,
        _KIP_279[1],
        """
The controller makes broker 1 the leader, leader epoch 0.
Broker 1 learns that it leads in epoch 0.
The controller makes broker 2 the leader, leader epoch 1.
Broker 2 learns that it leads in epoch 1.
The controller makes broker 1 the leader, leader epoch 2.
Broker 3 learns that it follows broker 1 in epoch 2.
Broker 1 appends m0 at offset 0.
Broker 3 fetches offset 0 from broker 1; its high watermark is 0.
Broker 1 learns that it follows broker 2 in epoch 1 and truncates m0.
Broker 1 learns that it leads in epoch 2.
""",
    ),
)
