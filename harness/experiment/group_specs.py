"""The keys `group` and `loop` of a lane in an experiment."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from kafka_chaos.contract.groups import CONSUMER, IN_TRANSACTION, Group
from kafka_chaos.harness.experiment.values import Spec

_GROUP = Group()


class GroupSpec(Spec):
    """The key `group` of a lane or of a loop: the members of a consumer group, and what the load does to them."""

    members: int = Field(default=_GROUP.members, le=50, description="members of the group at the beginning")
    assignor: str | None = Field(
        default=_GROUP.assignor,
        description="`partition.assignment.strategy`: range, roundrobin or cooperative-sticky; none with the protocol "
        "`consumer`",
    )
    protocol: str = Field(
        default=_GROUP.protocol,
        description="`group.protocol`: `classic`, or `consumer` (KIP-848, Kafka 4.0 and later in KRaft mode)",
    )
    static: bool = Field(default=_GROUP.static, description="whether each member has a `group.instance.id`")
    commits: str = Field(
        default=_GROUP.commits,
        description="when a member commits: `after` processing a batch, `before` it, or `auto` (its client does, every "
        "second)",
    )
    session_timeout_ms: int = Field(
        default=_GROUP.session_timeout_ms,
        ge=1_000,
        description="`session.timeout.ms`: after so long without a heartbeat, a member is no longer one",
    )
    max_poll_interval_ms: int = Field(
        default=_GROUP.max_poll_interval_ms,
        description="`max.poll.interval.ms`: after so long without a poll, a member leaves",
    )
    crashes: int = Field(
        default=_GROUP.crashes,
        le=1_000,
        description="how often, evenly over the load, a member is killed amid a batch; a new one takes its place",
    )
    freezes: int = Field(
        default=_GROUP.freezes,
        le=1_000,
        description="how often, evenly over the load, a member does not poll for longer than `max_poll_interval_ms`; "
        "then it processes what it had and tries to commit",
    )
    joins: int = Field(default=_GROUP.joins, le=50, description="members that join during the first half of the load")
    leaves: int = Field(
        default=_GROUP.leaves, le=50, description="members that leave in order during the second half of the load"
    )

    @model_validator(mode="before")
    @classmethod
    def _assigned_by_brokers(cls, value: Any) -> Any:
        """With the protocol `consumer` there is no assignor unless one is asked for, which is refused later."""
        if isinstance(value, dict) and value.get("protocol") == CONSUMER:
            return {"assignor": None, **value}
        return value


class LoopSpec(Spec):
    """The key `loop` of a lane: a consume-transform-produce loop writes it, instead of producers of its own."""

    source: str = Field(description="the lane that the loop reads; it has no loop itself, and is in the same phase")
    offsets: str = Field(
        default=IN_TRANSACTION,
        description="when it commits the offsets of its inputs: in the `transaction` of the outputs, `after` they are "
        "acknowledged, or `before` they are sent",
    )
    group: GroupSpec = Field(default=GroupSpec(), description="the members that run it; `commits` has no meaning here")


def with_loop(lane: dict[str, Any]) -> dict[str, Any]:
    """A lane's keys with what its loop implies, unless they say otherwise: idempotence, and a producer per member."""
    loop = lane.get("loop")
    if not isinstance(loop, dict):
        return lane
    lane = {"idempotence": True, **lane}
    given = lane.get("transactional") or {}
    if loop.get("offsets", IN_TRANSACTION) != IN_TRANSACTION or not isinstance(given, dict):
        return lane
    group = loop.get("group")
    members = group.get("members", _GROUP.members) if isinstance(group, dict) else _GROUP.members
    return {**lane, "transactional": {"producers": members, **given}}
