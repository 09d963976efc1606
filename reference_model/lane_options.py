"""The options of `predict` that say what a lane is like: of its topic, its producers, its group and its loop.

They are made of the keys that the contract declares: a new key of a lane is an option, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from kafka_chaos.contract.groups import CONSUMER, COOPERATIVE, IN_TRANSACTION, Group, Loop
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import Transactional

Command = TypeVar("Command", bound=Callable[..., Any])

SOURCE = "source"
"""The name of the lane that a loop reads, where nothing depends on it."""
_NOT_ASKED = ("lane", "topic", "cleanup_policy", "faults", "transactional", "group", "loop")
_SAME = ("commits", "assignor", "static", "members", "crashes")
_OF_GROUPS = {"protocol": "group_protocol"} | dict(zip(_SAME, _SAME, strict=True))
"""The options that need a group or a loop, by their keys."""
_OF_TRANSACTIONS = {"size": "transaction_size", "producers": "producers"}


def _option(settings: type[Any], key: str, name: str = "", **given: Any) -> Callable[[Command], Command]:
    """The option of a key; `given` replaces what the key says."""
    declared = settings.__dataclass_fields__[key]
    option = f"--{(name or key).replace('_', '-')}"
    meaning = declared.metadata["description"]
    found: dict[str, Any] = {"help": f"{meaning[0].upper()}{meaning[1:]}."}
    found |= {"default": declared.default, "show_default": declared.default is not None}
    kind = declared.type.removesuffix(" | None")
    if declared.metadata["choices"]:
        found["type"] = click.Choice(declared.metadata["choices"])
    elif kind == "bool" and declared.default is not None:
        option = f"{option}/--no-{option[2:]}"
    else:
        found["type"] = {"bool": click.BOOL, "int": int, "str": str}[kind]
    return click.option(option, **(found | given))


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def added(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added


_SAID: dict[str, dict[str, Any]] = {
    "partitions": {"default": 2, "help": "Partitions of the topic; they matter to transactions only."}
}
_ASKED = [one.name for one in fields(Lane) if one.name not in _NOT_ASKED]
lane_options = _with(*(_option(Lane, key, **_SAID.get(key, {})) for key in _ASKED))
"""Adds the options of the lane itself to a command."""
settings_options = _with(
    *(_option(Transactional, key, name) for key, name in _OF_TRANSACTIONS.items()),
    click.option("--group", is_flag=True, help="A consumer group reads the lane: what may that show?"),
    _option(
        Loop,
        "offsets",
        "loop",
        default=None,
        help="The lane is the output of a consume-transform-produce loop, which commits the offsets of its inputs so. "
        "With transaction, implies --transactional.",
    ),
    *(_option(Group, key, name) for key, name in _OF_GROUPS.items() if key != "assignor"),
    _option(Group, "assignor", default=None, help=f"Default: {COOPERATIVE} with the protocol classic."),
)
"""Adds the options of transactions, groups and loops."""


def option_named(key: str) -> str:
    """The option of a key of the lane, such as `group.protocol`."""
    at, _, last = key.rpartition(".")
    names = _OF_TRANSACTIONS if at == "transactional" else _OF_GROUPS if at else {}
    return f"--{names.get(last, key).replace('_', '-')}"


def taken_from(options: dict[str, Any], *, transactional: bool) -> dict[str, Any]:
    """The keys of the lane that these options describe. Raises `LaneError` for wrong values."""
    has_group, offsets = options.pop("group"), options.pop("loop")
    of_groups = {key: options.pop(name) for key, name in _OF_GROUPS.items()}
    of_transactions = {key: options.pop(name) for key, name in _OF_TRANSACTIONS.items()}
    if not has_group and offsets is None:
        for name in _OF_GROUPS.values():
            if _is_given(name):
                raise click.BadParameter("needs --group or --loop", param_hint=f"'--{name.replace('_', '-')}'")
    else:
        if of_groups["assignor"] is None and of_groups["protocol"] != CONSUMER:
            of_groups["assignor"] = COOPERATIVE
        options["group"] = Group(**of_groups) if has_group else None
        if offsets is not None:
            del of_groups["commits"]
            options["loop"] = Loop(source=SOURCE, offsets=offsets, group=Group(**of_groups))
    if offsets == IN_TRANSACTION:
        of_transactions["producers"] = of_groups["members"]
    if transactional or offsets == IN_TRANSACTION:
        if not options["idempotence"] and _is_given("idempotence"):
            raise click.BadParameter("transactions need idempotence", param_hint="'--no-idempotence'")
        options |= {"idempotence": True, "transactional": Transactional(**of_transactions)}
    return options


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
