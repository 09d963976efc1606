"""The settings of a group's member, as the order `begin` of the client protocol carries them."""

from typing import Any, NotRequired, TypedDict

ORDER_FREEZE, ORDER_CRASH, ORDER_LEAVE, ORDER_JOIN = "freeze", "crash", "leave", "join"
"""The orders of a group's plan: a member stops polling for a while, dies or leaves, or a new member joins."""

MEMBER = "member"
"""The role of the members of consumer groups in the client protocol, those of loops included."""

REPLACE_ME = 3
"""The exit code of a member that ends because its client failed for good: a new member takes its place."""


class OutputSettings(TypedDict):
    """The output of a loop: the lane that it writes, and how.

    `offsets` as in `Loop`; `size` and `abort` as in `Transactional`. `configs` are the producer's; with transactions
    they have its `transactional.id`. `names_generation`: whether its offsets in a transaction name the member and its
    generation, which brokers compare since 2.5 (KIP-447).
    """

    lane: str
    topic: str
    partitions: int
    record_size: int
    producer_id: int
    configs: dict[str, Any]
    offsets: str
    size: int
    abort: float
    seed: str
    run_directory: str
    names_generation: bool


class MemberSettings(TypedDict):
    """A member of `group`, which reads `lane`. Its consumer ids in `assignments/` begin with `name`.

    `commits` as in `Group`; in a loop, the `output` says when the member commits. `freeze_seconds`: how long it stops
    polling when it is told to freeze.
    """

    group: str
    name: str
    lane: str
    topic: str
    configs: dict[str, Any]
    commits: str
    freeze_seconds: float
    output: NotRequired[OutputSettings | None]
