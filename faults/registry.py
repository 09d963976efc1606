"""Finds fault kinds by name: this project's own, and other packages' by the entry point group `kafka_chaos.faults`.

A package adds a kind by an entry point, whose name is the kind's name, and whose value is the class:

    [project.entry-points."kafka_chaos.faults"]
    slow = "my_package.slow:Slow"

This project's own kinds are found by their class variable `kind`, in the modules of the folders beside this one.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import walk_packages
from typing import Any

from kafka_chaos import faults
from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.faults.fault import Appearance, Fault, as_text

GROUP = "kafka_chaos.faults"
_DEPTH = GROUP.count(".") + 2
"""The number of dots in the name of a module with kinds, such as `kafka_chaos.faults.network.partition`."""
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_REQUIRED = ("kind", "appearance")  # the class variables that every kind must set
_HIDDEN_BY_TCP = "TCP hides it from Kafka; `delay` lets requests or responses arrive later, `packet-loss` loses packets"
FORMER_KINDS = {
    "packet-delay": "`delay` lets requests or responses arrive later",
    "packet-rate": "`rate` limits how many kbit of requests or responses arrive in a second",
    "packet-reorder": _HIDDEN_BY_TCP,
    "packet-duplicate": _HIDDEN_BY_TCP,
}
"""Former kinds, and what to write instead."""


class FaultKindError(EnvironmentFailure):
    """A fault kind of an installed package can't be used; the message names the package and the reason."""


@cache
def fault_kinds() -> Mapping[str, type[Fault]]:
    """The classes of all installed fault kinds by name, this project's own first; raises `FaultKindError`."""
    entries = {kind.kind: EntryPoint(kind.kind, f"{kind.__module__}:{kind.__name__}", GROUP) for kind in _own_kinds()}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        # An older editable installation still has this project's own kinds as entry points.
        if entry.name in entries and entry.value.startswith(f"{GROUP}."):
            continue
        other = entries.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise FaultKindError(
                f"fault kind {entry.name} comes from {_origin(other)} and from {_origin(entry)}: remove one of them"
            )
    return {name: _load(entry) for name, entry in entries.items()}


def _own_kinds() -> list[type[Fault]]:
    """The kinds of this project in the order of their names: classes with a `kind`, in modules of a family's folder."""
    modules = [info.name for info in walk_packages(faults.__path__, f"{GROUP}.") if info.name.count(".") == _DEPTH]
    classes = [value for name in modules for value in vars(import_module(name)).values() if isinstance(value, type)]
    kinds = {kind for kind in classes if issubclass(kind, Fault) and "kind" in vars(kind)}
    return sorted(kinds, key=lambda kind: kind.kind)


def fault_kind(name: str) -> type[Fault]:
    """The class of an installed fault kind; raises `ValueError` for any other name, with similar names."""
    kinds = fault_kinds()
    if name in FORMER_KINDS and name not in kinds:
        raise ValueError(f"{name!r} is no longer a fault kind: {FORMER_KINDS[name]}")
    if name not in kinds:
        near = ", ".join(get_close_matches(name, kinds))
        expected = f"{near}, or another" if near else "one"
        raise ValueError(f"{name!r} is not a fault kind: expected {expected} that `kafka-chaos faults` lists")
    return kinds[name]


def appearances() -> Mapping[str, Appearance]:
    """How each installed kind looks in the report."""
    return {name: kind.appearance for name, kind in fault_kinds().items()}


def describe_evidence(kind: str, evidence: Mapping[str, Any]) -> str:
    """A proof's evidence in words: `NAME: WORDS` for each of several nodes, and the words alone for a single node.

    The kind's `describe_evidence` chooses the words. Keys and values are shown if they belong to no node, or if the
    kind is not installed or cannot describe this evidence, for example because an older version wrote it.
    """
    by_name = {name: _described(kind, value) for name, value in evidence.items() if isinstance(value, Mapping)}
    if len(evidence) == 1 and by_name:
        return next(iter(by_name.values()))
    texts = {name: f"{name} {as_text(value)}" for name, value in evidence.items()}
    return "; ".join(f"{name}: {by_name[name]}" if by_name.get(name) else text for name, text in texts.items())


def _described(kind: str, evidence: Mapping[str, Any]) -> str:
    try:
        return str(fault_kinds()[kind].describe_evidence(evidence))
    except Exception:  # noqa: BLE001 - another package's code, and evidence that was written by any version of it
        return as_text(evidence)


def _load(entry: EntryPoint) -> type[Fault]:
    try:
        kind = entry.load()
    except Exception as error:
        raise FaultKindError(f"fault kind {entry.name} of {_origin(entry)} can't be loaded: {error!r}") from error
    if not (isinstance(kind, type) and issubclass(kind, Fault)):
        raise FaultKindError(f"fault kind {entry.name} of {_origin(entry)} must subclass {Fault.__module__}.Fault")
    missing = [name for name in _REQUIRED if not hasattr(kind, name)]
    if missing:
        raise FaultKindError(f"fault kind {entry.name} of {_origin(entry)} lacks {', '.join(missing)}")
    if kind.kind != entry.name or not _NAME.fullmatch(entry.name):
        raise FaultKindError(
            f"fault kind {entry.name} of {_origin(entry)} calls itself {kind.kind!r}: expected the entry point's name, "
            "in lower-case letters, digits and hyphens"
        )
    return kind


def _origin(entry: EntryPoint) -> str:
    package = "kafka-chaos" if entry.dist is None else entry.dist.name
    return f"{package} ({entry.value})"
