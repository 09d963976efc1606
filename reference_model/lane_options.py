"""The options of `predict` for the settings of a lane: of its topic, its producers, its group and its loop.

They are made from the keys that the contract declares, so that a new key of a lane is an option, too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from kafka_chaos.contract.command.errors import LaneError, quoted
from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.groups import CONSUMER, COOPERATIVE, IN_TRANSACTION, Group, Loop
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional

Command = TypeVar("Command", bound=Callable[..., Any])

SOURCE = "source"
"""The name of the lane that a loop reads; no answer depends on it."""
_WITHOUT_OPTION = (
    *("lane", "topic", "cleanup_policy", "faults", "transactional", "group", "loop", "share", "delete_retention_ms"),
    *("assume", "consumer_offsets", "transaction_state", "created_late", "tiered", "retention_bytes"),
)
"""The keys of a lane that are no options by their own name."""
_GROUP_OPTIONS = {"protocol": "group_protocol"}
_GROUP_OPTIONS |= {key: key for key in ("commits", "assignor", "static", "members", "crashes")}
"""The options that need a group or a loop, by their keys."""
_TRANSACTION_OPTIONS = {"size": "transaction_size", "producers": "producers"}


def split_list(values: tuple[str, ...]) -> tuple[str, ...]:
    """The entries of a repeatable option that also takes several at once, separated by commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def fault_kinds(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The fault kinds that an option such as --faults lists; a kind that the model does not have is refused."""
    kinds = split_list(values)
    for kind in kinds:
        if kind not in FAULT_KINDS:
            raise click.BadParameter(f"{quoted(kind)}: expected fault kinds out of {', '.join(FAULT_KINDS)}")
    return kinds


_faults = click.option(
    "--faults",
    multiple=True,
    metavar="KIND[,KIND…]",
    callback=fault_kinds,
    help=f"Faults that may occur, each entry at most once: {', '.join(FAULT_KINDS)}.",
)


def _option(settings: type[Any], key: str, name: str = "", **replaced: Any) -> Callable[[Command], Command]:
    """The option for a key of the class `settings`. `replaced`: attributes that override those of its declaration."""
    declared = settings.__dataclass_fields__[key]
    option = f"--{(name or key).replace('_', '-')}"
    meaning = declared.metadata["description"]
    attributes: dict[str, Any] = {"help": f"{meaning[0].upper()}{meaning[1:]}."}
    attributes |= {"default": declared.default, "show_default": declared.default is not None}
    kind = declared.type.removesuffix(" | None")
    if declared.metadata["choices"]:
        attributes["type"] = click.Choice([choice for choice in declared.metadata["choices"] if choice is not None])
    elif kind == "bool" and declared.default is not None:
        option = f"{option}/--no-{option[2:]}"
    elif kind == "bool":
        attributes["type"] = click.Choice(("true", "false"))
        attributes["callback"] = lambda _context, _option, text: None if text is None else text == "true"
    else:
        attributes["type"] = {"int": int, "str": str}[kind]
    return click.option(option, **(attributes | replaced))


def _all_of(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def added(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added


def lane_options(
    *others: str, left_out: tuple[str, ...] = (), **changed: dict[str, Any]
) -> Callable[[Command], Command]:
    """A decorator that adds the options of the lane itself to a command, and `--faults`.

    These are the options of its topic, producers and cluster, without the keys `left_out` and with the keys `others`.
    `changed`: by key, attributes that override those of the key's declaration.
    """
    names = [field.name for field in fields(Lane)]
    keys = [name for name in names if name not in (*_WITHOUT_OPTION, *left_out) or name in others]
    return _all_of(*(_option(Lane, key, **changed.get(key, {})) for key in keys), _faults)


settings_options = _all_of(
    *(_option(Transactional, key, name) for key, name in _TRANSACTION_OPTIONS.items()),
    click.option("--group", is_flag=True, help="A consumer group reads the lane: predict its anomalies, too."),
    _option(
        Loop,
        "offsets",
        "loop",
        default=None,
        help="The lane is the output of a consume-transform-produce loop that commits its inputs' offsets in this way. "
        "The value transaction implies --transactional.",
    ),
    *(_option(Group, key, name) for key, name in _GROUP_OPTIONS.items() if key != "assignor"),
    _option(Group, "assignor", default=None, help=f"Default: {COOPERATIVE} with the protocol classic."),
)
"""A decorator that adds the options of transactions, groups and loops to a command."""


@contextmanager
def refused_by_option() -> Iterator[None]:
    """Turn a `LaneError`, which names a key such as `group.protocol`, into an error that names the option."""
    try:
        yield
    except LaneError as error:
        parent, _, key = error.key.rpartition(".")
        names = _TRANSACTION_OPTIONS if parent == "transactional" else _GROUP_OPTIONS if parent else {}
        option = f"--{names.get(key, error.key).replace('_', '-')}"
        raise click.BadParameter(f"{error.shown}: expected {error.expected}", param_hint=f"'{option}'") from error


def lane_keys(options: dict[str, Any], *, transactional: bool) -> dict[str, Any]:
    """The keys of the lane that has these options. Raises `LaneError` for wrong values."""
    has_group, offsets = options.pop("group"), options.pop("loop")
    group_settings = {key: options.pop(name) for key, name in _GROUP_OPTIONS.items()}
    transaction_settings = {key: options.pop(name) for key, name in _TRANSACTION_OPTIONS.items()}
    if not has_group and offsets is None:
        for name in _GROUP_OPTIONS.values():
            if _is_given(name):
                raise click.BadParameter("needs --group or --loop", param_hint=f"'--{name.replace('_', '-')}'")
    else:
        if group_settings["assignor"] is None and group_settings["protocol"] != CONSUMER:
            group_settings["assignor"] = COOPERATIVE
        options["group"] = Group(**group_settings) if has_group else None
        if offsets is not None:
            del group_settings["commits"]
            options["loop"] = Loop(source=SOURCE, offsets=offsets, group=Group(**group_settings))
    if offsets == IN_TRANSACTION:
        transaction_settings["producers"] = group_settings["members"]
    if transactional or offsets == IN_TRANSACTION:
        if not options["idempotence"] and _is_given("idempotence"):
            raise click.BadParameter("transactions need idempotence", param_hint="'--no-idempotence'")
        options |= {"idempotence": True, "transactional": Transactional(**transaction_settings)}
    return options


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
