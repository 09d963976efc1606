"""The command-line options for the keys of a lane: of its topic, its producers, its group and its loop.

They are made from the keys that the contract declares, so a new key of a lane becomes an option of `predict`, too.
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
_KEYS_WITHOUT_OPTION = (
    *("lane", "topic", "cleanup_policy", "faults", "transactional", "group", "loop", "share", "delete_retention_ms"),
    *("assume", "consumer_offsets", "transaction_state", "created_late", "tiered", "retention_bytes"),
)
"""The keys of a lane for which `lane_options` makes no option by default."""
_GROUP_OPTIONS = {"protocol": "group_protocol"}
_GROUP_OPTIONS |= {key: key for key in ("commits", "assignor", "static", "members", "crashes")}
"""The option for each key of a `Group`; these options go only with --group or --loop."""
_TRANSACTION_OPTIONS = {"size": "transaction_size", "producers": "producers"}
"""The option for each key of `Transactional`."""


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


_faults_option = click.option(
    "--faults",
    multiple=True,
    metavar="KIND[,KIND…]",
    callback=fault_kinds,
    help=f"Faults that may occur, each entry at most once: {', '.join(FAULT_KINDS)}.",
)


def _option(settings: type[Any], key: str, name: str = "", **replaced: Any) -> Callable[[Command], Command]:
    """The option for a key of the class `settings`. `replaced`: attributes that replace the declared ones."""
    declared = settings.__dataclass_fields__[key]
    option = f"--{(name or key).replace('_', '-')}"
    meaning = declared.metadata["description"]
    attributes: dict[str, Any] = {"help": f"{meaning[0].upper()}{meaning[1:]}."}
    attributes |= {"default": declared.default, "show_default": declared.default is not None}
    kind = declared.type.removesuffix(" | None")  # A string, since the class's module postpones annotations.
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
    def decorated(command: Command) -> Command:
        # As with decorators one below the other, the help lists first what is applied last.
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def lane_options(
    *added: str, left_out: tuple[str, ...] = (), **replaced: dict[str, Any]
) -> Callable[[Command], Command]:
    """A decorator that adds to a command `--faults` and the options for the lane's topic, producers and cluster.

    Keys in `added` get an option despite `_KEYS_WITHOUT_OPTION`, those in `left_out` none. `replaced`: see `_option`.
    """
    names = [field.name for field in fields(Lane)]
    keys = [name for name in names if name not in (*_KEYS_WITHOUT_OPTION, *left_out) or name in added]
    return _all_of(*(_option(Lane, key, **replaced.get(key, {})) for key in keys), _faults_option)


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
"""A decorator that adds to a command the options for the lane's transactions, group and loop."""


@contextmanager
def refused_by_option() -> Iterator[None]:
    """In this block, turn a `LaneError`, which names a key such as `group.protocol`, into an error about its option."""
    try:
        yield
    except LaneError as error:
        parent, _, key = error.key.rpartition(".")
        names = _TRANSACTION_OPTIONS if parent == "transactional" else _GROUP_OPTIONS if parent else {}
        option = f"--{names.get(key, error.key).replace('_', '-')}"
        raise click.BadParameter(f"{error.shown}: expected {error.expected}", param_hint=f"'{option}'") from error


def lane_keys(options: dict[str, Any], *, transactional: bool) -> dict[str, Any]:
    """Turn `options` into the keys of a lane, in place, and return them. Raises `LaneError` for wrong values."""
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
            del group_settings["commits"]  # `offsets` says when a loop commits.
            options["loop"] = Loop(source=SOURCE, offsets=offsets, group=Group(**group_settings))
    if offsets == IN_TRANSACTION:  # Then each member is a producer.
        transaction_settings["producers"] = group_settings["members"]
    if transactional or offsets == IN_TRANSACTION:
        if not options["idempotence"] and _is_given("idempotence"):
            raise click.BadParameter("transactions need idempotence", param_hint="'--no-idempotence'")
        options |= {"idempotence": True, "transactional": Transactional(**transaction_settings)}
    return options


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
