"""The settings of a group's member, which are fields of the client protocol's order `begin`."""

from typing import Any, NotRequired, TypedDict

ORDER_FREEZE, ORDER_CRASH, ORDER_LEAVE, ORDER_JOIN = "freeze", "crash", "leave", "join"
"""The orders of a group's plan. Freeze: a member stops polling for a while. Crash: it dies."""

MEMBER = "member"
"""The role of members of consumer groups in the client protocol, also of those that are loops."""

REPLACE_ME = 3
"""The exit code of a member that ends because its client failed for good: a new member takes its place."""


class OutputSettings(TypedDict):
    """How a loop's member writes its output, the lane `lane`.

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
    """The settings of a member of `group`, which reads `lane`. Its consumer names in the history begin with `name`.

    `commits` as in `Group`; in a loop, the `output` says when the member commits. `freeze_seconds`: how long the member
    stops polling when it is ordered to freeze.
    """

    group: str
    name: str
    lane: str
    topic: str
    configs: dict[str, Any]
    commits: str
    freeze_seconds: float
    output: NotRequired[OutputSettings | None]
