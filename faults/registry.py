"""Fault kinds by name: this project's, and those of other packages, by the entry point group `kafka_chaos.faults`.

A package adds a kind by an entry point. Its name is the kind's name, and its value is the class:

    [project.entry-points."kafka_chaos.faults"]
    slow = "my_package.slow:Slow"

This project's own kinds are listed here in the same form: a new one needs no new installation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kafka_chaos.contract.errors import EnvironmentFailure
from kafka_chaos.faults.fault import Appearance, Fault

GROUP = "kafka_chaos.faults"
_OWN = {
    "kill": "process.kill:Kill",
    "stop": "process.stop:Stop",
    "pause": "process.pause:Pause",
    "partition": "network.partition:Partition",
    "isolate": "network.isolate:Isolate",
    "packet-loss": "network.packet_loss:PacketLoss",
    "packet-delay": "network.packet_delay:PacketDelay",
    "packet-reorder": "network.packet_reorder:PacketReorder",
    "packet-rate": "network.packet_rate:PacketRate",
    "packet-duplicate": "network.packet_duplicate:PacketDuplicate",
    "clock-step": "clock.clock_step:ClockStep",
    "clock-drift": "clock.clock_drift:ClockDrift",
    "hold": "links.hold:Hold",
    "delay": "links.delay:Delay",
    "drop": "links.drop:Drop",
    "cut": "links.cut:Cut",
    "client-kill": "clients.client_kill:ClientKill",
    "client-pause": "clients.client_pause:ClientPause",
    "connection-reset": "clients.connection_reset:ConnectionReset",
    "leader-transfer": "coordination.leader_transfer:LeaderTransfer",
    "partition-growth": "coordination.partition_growth:PartitionGrowth",
    "reassignment": "coordination.reassignment:Reassignment",
    "session-expiry": "coordination.session_expiry:SessionExpiry",
    "controller-move": "coordination.controller_move:ControllerMove",
    "lost-checkpoint": "storage.lost_checkpoint:LostCheckpoint",
    "lost-index": "storage.lost_index:LostIndex",
    "corrupted-segment": "storage.corrupted_segment:CorruptedSegment",
    "truncated-segment": "storage.truncated_segment:TruncatedSegment",
    "power-loss": "storage.power_loss:PowerLoss",
    "freeze-disk": "storage.freeze_disk:FreezeDisk",
    "slow-disk": "storage.slow_disk:SlowDisk",
    "failing-segment": "storage.failing_segment:FailingSegment",
    "full-disk": "storage.full_disk:FullDisk",
    "read-only-disk": "storage.read_only_disk:ReadOnlyDisk",
}
"""Kinds of this project: name, and where the class is, from this package on."""
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_REQUIRED = ("kind", "model_faults", "appearance", "inject", "proof", "heal")


class FaultKindError(EnvironmentFailure):
    """A fault kind of an installed package can't be used; the message names the package and the reason."""


@cache
def fault_kinds() -> Mapping[str, type[Fault]]:
    """The classes of all installed fault kinds by name, this project's first; raises `FaultKindError`."""
    found = {name: EntryPoint(name, f"{GROUP}.{place}", GROUP) for name, place in sorted(_OWN.items())}
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        # An editable installation keeps the entry points of its day, when own kinds were among them.
        if entry.name in _OWN and entry.value.startswith(f"{GROUP}."):
            continue
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise FaultKindError(
                f"fault kind {entry.name} comes from {_origin(other)} and from {_origin(entry)}: remove one of them"
            )
    return {name: _load(entry) for name, entry in found.items()}


def fault_kind(name: str) -> type[Fault]:
    """The class of an installed fault kind; raises `ValueError` for any other name, with those that are near."""
    known = fault_kinds()
    if name not in known:
        near = ", ".join(get_close_matches(name, known))
        expected = f"{near}, or another" if near else "one"
        raise ValueError(f"{name!r} is not a fault kind: expected {expected} that `kafka-chaos faults` lists")
    return known[name]


def unavailable(kind: type[Fault]) -> str | None:
    """Why this machine can't do faults of a kind, and what would be needed; None where it can.

    A kind says so by a static method `unavailable() -> str | None`. Without it, every machine that runs clusters can.
    """
    reason = getattr(kind, "unavailable", None)
    return None if reason is None else reason()


def appearances() -> Mapping[str, Appearance]:
    """How each installed kind looks in the report."""
    return {name: kind.appearance for name, kind in fault_kinds().items()}


def describe_evidence(kind: str, evidence: Mapping[str, Any]) -> str:
    """A proof's evidence in words, per container.

    The kind's `describe_evidence` chooses the words. Keys and values are shown if the kind has no such method, or if
    the method cannot describe this evidence, for example because an older version wrote it.
    """
    per_container = [_described(kind, one) if isinstance(one, Mapping) else None for one in evidence.values()]
    if len(per_container) == 1 and per_container[0] is not None:
        return per_container[0]
    named = zip(evidence.items(), per_container, strict=True)
    return "; ".join(f"{name}: {words}" if words else f"{name} {_plain(value)}" for (name, value), words in named)


def _described(kind: str, evidence: Mapping[str, Any]) -> str:
    describe = getattr(fault_kinds().get(kind), "describe_evidence", _plain)
    try:
        return str(describe(evidence))
    except Exception:  # noqa: BLE001 - another package's code, and evidence that was written by any version of it
        return _plain(evidence)


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(one) for one in value)
    return str(value)


def _load(entry: EntryPoint) -> type[Fault]:
    try:
        kind = entry.load()
    except Exception as error:
        raise FaultKindError(f"fault kind {entry.name} of {_origin(entry)} can't be loaded: {error!r}") from error
    missing = [name for name in _REQUIRED if not hasattr(kind, name)]
    if missing:
        raise FaultKindError(f"fault kind {entry.name} of {_origin(entry)} lacks {', '.join(missing)}")
    if kind.kind != entry.name or not _NAME.fullmatch(entry.name):
        raise FaultKindError(
            f"fault kind {entry.name} of {_origin(entry)} calls itself {kind.kind!r}: expected the entry point's name, "
            "of small letters, digits and hyphens"
        )
    loaded: type[Fault] = kind
    return loaded


def _origin(entry: EntryPoint) -> str:
    package = "kafka-chaos" if entry.dist is None else entry.dist.name
    return f"{package} ({entry.value})"
