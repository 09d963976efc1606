"""The options of `predict` that give a lane a consumer group, or make it the output of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kafka_chaos.contract.groups import (
    AFTER,
    ASSIGNORS,
    CLASSIC,
    COMMITS,
    CONSUMER,
    COOPERATIVE,
    OFFSETS,
    PROTOCOLS,
    Group,
    Loop,
)

Command = TypeVar("Command", bound=Callable[..., Any])

SOURCE = "source"
"""The name of the lane that a loop reads, where nothing depends on it."""

_OPTIONS = (
    click.option("--group", is_flag=True, help="A consumer group reads the lane: what may that show?"),
    click.option(
        "--loop",
        type=click.Choice(OFFSETS),
        help="The lane is the output of a consume-transform-produce loop, which commits the offsets of its inputs so. "
        "With transaction, implies --transactional.",
    ),
    click.option(
        "--commits", type=click.Choice(COMMITS), default=AFTER, show_default=True, help="When a group commits."
    ),
    click.option(
        "--group-protocol",
        type=click.Choice(PROTOCOLS),
        default=CLASSIC,
        show_default=True,
        help="consumer: KIP-848, since 4.0.",
    ),
    click.option("--assignor", type=click.Choice(ASSIGNORS), help=f"Default: {COOPERATIVE} with the protocol classic."),
    click.option("--static", is_flag=True, help="Members have a group.instance.id each."),
    click.option("--members", type=int, default=3, show_default=True, help="Members of a group or a loop."),
    click.option("--crashes", type=int, default=0, show_default=True, help="Members that die without leaving."),
)
GROUP_OPTIONS = ("commits", "group_protocol", "assignor", "static", "members", "crashes")
"""The options that need a group or a loop."""


def group_options(command: Command) -> Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def taken_from(settings: dict[str, Any]) -> tuple[Group | None, Loop | None]:
    """The lane's group and its loop, whose options are taken out of `settings`. Raises `LaneError` for wrong values."""
    has_group, offsets = settings.pop("group"), settings.pop("loop")
    values = {name: settings.pop(name) for name in GROUP_OPTIONS}
    if not has_group and offsets is None:
        source = click.get_current_context().get_parameter_source
        for name in GROUP_OPTIONS:
            if source(name) is click.core.ParameterSource.COMMANDLINE:
                option = f"--{name.replace('_', '-')}"
                raise click.BadParameter("needs --group or --loop", param_hint=f"'{option}'")
        return None, None
    commits, protocol = values.pop("commits"), values.pop("group_protocol")
    if values["assignor"] is None and protocol != CONSUMER:
        values["assignor"] = COOPERATIVE
    group = Group(protocol=protocol, commits=commits, **values) if has_group else None
    loop = None if offsets is None else Loop(source=SOURCE, offsets=offsets, group=Group(protocol=protocol, **values))
    return group, loop
