"""The settings of a group's member, which are fields of the client protocol's order `begin`."""

from typing import Any, NotRequired, TypedDict

ORDER_FREEZE, ORDER_CRASH, ORDER_LEAVE, ORDER_JOIN = "freeze", "crash", "leave", "join"
"""What a group's plan orders. Freeze: a member stops polling for a while. Crash: it kills itself. Join: one starts."""

MEMBER = "member"
"""The role of members of consumer groups in the client protocol, also of members that run a loop."""

REPLACE_ME = 3
"""The exit code of a member that ends because its client failed for good: a new member takes its place."""


class OutputSettings(TypedDict):
    """How a loop's member writes its output, which is the lane `lane`.

    `offsets` as in `Loop`; `size` and `abort` as in `Transactional`; the `seed` decides which transactions are aborted.
    `configs`: the producer's, with its `transactional.id` if it has one. `names_generation`: whether the offsets in a
    transaction name the member and its generation, which brokers check since 2.5 (KIP-447).
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
    """The settings of a member of `group`, a consumer group that reads `lane`.

    Its consumers' names in the history begin with `name`. `commits` as in `Group`; in a loop, `output` says when the
    member commits. `freeze_seconds`: how long the member stops polling when it is ordered to freeze.
    """

    group: str
    name: str
    lane: str
    topic: str
    configs: dict[str, Any]
    commits: str
    freeze_seconds: float
    output: NotRequired[OutputSettings | None]
