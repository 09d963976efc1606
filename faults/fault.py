"""The interface of a fault kind, and the proof that a fault took effect.

A fault is a frozen dataclass that says what breaks, where, when and for how long. Its three functions are idempotent
and take the containers that its target was resolved to. They keep no state: after a crash of the injector, only the
value itself is left to heal from. The fields besides `target`, `at` and `duration` are the keys that the kind takes in
an experiment. They need defaults, and types that JSON can express.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Protocol, get_type_hints

from kafka_chaos.contract.errors import quoted
from kafka_chaos.contract.refusals import expected
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.target import OF_CLIENTS, Target

Nodes = tuple[NodeControl, ...]

DOWN = "down"
FROZEN = "frozen"
"""States in which a fault may hold a container. The last of the faults that hold it there brings it back."""

_COMMON_FIELDS = ("target", "at", "duration")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a fault took effect, and the evidence; if it did not, `reason` says what was missing.

    `since_ns`: since when, on the monotonic clock, where the evidence tells.
    """

    took_effect: bool
    evidence: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    since_ns: int | None = None


class Pattern(StrEnum):
    """The pattern of a fault's band in the report: colour is never the only distinction."""

    CROSSES = "crosses"
    LINES = "lines"
    DIAGONALS = "diagonals"
    BACK_DIAGONALS = "back-diagonals"
    DOTS = "dots"


@dataclass(frozen=True, slots=True)
class Appearance:
    """How a fault looks in the report: colours (`#rrggbb`) on a light and on a dark page, and the band's pattern."""

    light: str
    dark: str
    pattern: Pattern

    def __post_init__(self) -> None:
        for name, colour in (("light", self.light), ("dark", self.dark)):
            if not _COLOUR.fullmatch(colour):
                raise ValueError(f"{name}: {colour!r} is not valid: expected a colour such as #c0392b")
        Pattern(self.pattern)


class Setting(Protocol):
    """What is known of a cluster before it starts."""

    @property
    def metadata_mode(self) -> str:
        """`zookeeper` or `kraft`."""
        ...

    def at_least(self, version: str) -> bool:
        """Whether all brokers are of this version of Kafka, or later."""
        ...


class Fault(Protocol):
    """A timed fault. `at` and `duration` are seconds; `at` counts from the start of the load.

    `kind` is its name in experiments and reports. The class's docstring is its entry in the reference: what it breaks,
    and what its proof is. A kind may have a static method `describe_evidence(evidence) -> str`, which puts the evidence
    of one container into words for reports; without it, reports show keys and values.

    Two more attributes of a class say what happens when faults overlap on a container. `holds` is `DOWN` or `FROZEN` if
    the fault keeps its containers so. `ends_with_process` is true if a restart of the container ends the fault: then it
    is injected again, which must change nothing where it is still in place. A static method
    `unavailable() -> str | None` returns why this machine can't do the fault, and what would be needed. With
    `needs_disk`, brokers get disks of their own where a schedule has such a fault (`NodeControl.disk`); with
    `needs_links`, every connection to a broker or controller passes a link (`NodeControl.link`), and a schedule with it
    can't have kinds with `avoids_links`; with `needs_clock`, nodes have wall clocks that can be moved
    (`NodeControl.clock`).

    Two attributes say which clusters and targets a kind is for. A static method `refusal(cluster: Setting)` returns why
    such a cluster can't have the fault, and what to write instead, or None. With `only_brokers`, servers that are no
    brokers are refused as targets. With `hits_clients`, its targets are members of groups and loops alone, which are
    processes of this machine and no containers; without it, these are refused. With `crashes_members`, the reference
    model is told of one crash more for each member hit. With `spares_other_lanes`, a fault that names a `lane` changes
    nothing for any other, and the model is not told of it there. With `leaves_nodes_alone`, its targets run on and stay
    in touch, so that no quorum is lost by it. `proof_timeout`: how many seconds its proof may take. A method
    `can_begin(cluster, nodes) -> bool` says whether there is what it needs now, such as brokers that run: it is waited
    for.
    """

    kind: ClassVar[str]
    appearance: ClassVar[Appearance]

    @property
    def target(self) -> Target:
        """The role that is hit."""
        ...

    @property
    def at(self) -> float:
        """When it begins, in seconds from the start of the load."""
        ...

    @property
    def duration(self) -> float:
        """How long it lasts, in seconds."""
        ...

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """What the reference model must expect in a cluster of this size: one fault kind of it per broker hit."""
        ...

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Break something."""
        ...

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Show, before it is healed, that the fault took effect."""
        ...

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Undo the damage, and wait until everything works again."""
        ...


def at_once(nodes: Nodes, action: Callable[[NodeControl], object]) -> None:
    """Do this to all containers at the same moment; returns when it is done everywhere, or raises the first error."""
    if len(nodes) == 1:
        action(nodes[0])
        return
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as threads:
        for done in [threads.submit(action, node) for node in nodes]:
            done.result()


def one_per_broker(kind: str, target: Target, brokers: int) -> tuple[str, ...]:
    """One fault kind of the reference model for each broker that a target names.

    A fault of ZooKeeper, or of KRaft's controllers, may end the session of any broker.
    """
    if target.role in ("zookeeper", "controllers"):
        return ("session-expiry",) * brokers
    return (kind,) * target.brokers_hit(brokers)


def all_took_effect(proofs: Mapping[str, Proof]) -> Proof:
    """Combines the proofs per container: the fault took effect if it did so in each of them."""
    missing = {name: proof.reason for name, proof in proofs.items() if not proof.took_effect}
    evidence = {name: dict(proof.evidence) for name, proof in proofs.items()}
    reason = "; ".join(f"{name}: {why}" for name, why in missing.items())
    times = [proof.since_ns for proof in proofs.values() if proof.since_ns is not None]
    since_ns = max(times) if proofs and len(times) == len(proofs) else None
    return Proof(bool(proofs) and not missing, evidence, reason or ("" if proofs else "it had no target"), since_ns)


def mark(fault: Fault) -> str:
    """A short name of this very fault, the same after a crash of the injector."""
    return f"{fault.kind}-{zlib.crc32(repr(fault).encode()):08x}"


def fits(kind: type[Fault], target: Target) -> bool:
    """Whether a kind may have such a target: those of clients have only clients, all others only servers."""
    return bool(getattr(kind, "hits_clients", False)) == (target.role in OF_CLIENTS)


def crashes_members(fault: Fault) -> bool:
    """Whether it ends the members that it hits."""
    return bool(getattr(fault, "crashes_members", False))


def concerns(fault: Fault, lane: str) -> bool:
    """Whether it may change anything for a lane under load."""
    alone = getattr(fault, "lane", None) if getattr(fault, "spares_other_lanes", False) else None
    return alone in (None, lane)


def parameters(fault: Fault) -> dict[str, Any]:
    """The values of a fault's own keys, as in an experiment file."""
    return {name: getattr(fault, name) for name in key_types(type(fault))}


def key_types(kind: type[Fault]) -> dict[str, Any]:
    """The keys that a kind takes in an experiment besides target and times, with their types."""
    types = get_type_hints(kind)
    return {entry.name: types[entry.name] for entry in fields(kind) if entry.name not in _COMMON_FIELDS}  # type: ignore[arg-type]


def defaults(kind: type[Fault]) -> dict[str, Any]:
    """The default of each key of a kind, as a JSON value."""
    by_name = {entry.name: entry.default for entry in fields(kind)}  # type: ignore[arg-type]
    written: dict[str, Any] = json.loads(json.dumps({name: by_name[name] for name in key_types(kind)}))
    return written


def build(kind: type[Fault], *, target: Target, at: float, duration: float, keys: Mapping[str, Any]) -> Fault:
    """A fault of this kind; raises `ValueError` of the form `KEY: what was expected`.

    A key whose value is None takes its default.
    """
    from pydantic import TypeAdapter, ValidationError

    types = key_types(kind)
    given: dict[str, Any] = {}
    for key, value in keys.items():
        if value is None:
            continue
        if key not in types:
            known = ", ".join(("fault", *_COMMON_FIELDS, *types))
            raise ValueError(f"{key}: a fault of kind {kind.kind} has no such key; expected {known}")
        try:
            # As JSON, a list in YAML can become a tuple, but no text becomes a number.
            given[key] = TypeAdapter(types[key]).validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            message = f"{key}: expected {expected(error.errors()[0])}, got {quoted(value)}"
            raise ValueError(message) from None
    return kind(target=target, at=at, duration=duration, **given)  # type: ignore[call-arg]
