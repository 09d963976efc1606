"""The base of every fault kind, and the proof that a fault took effect.

A fault is a frozen dataclass that says what breaks, where, when and for how long. Its functions `inject`, `proof` and
`heal` are idempotent and take the nodes that its target was resolved to. Healing needs no state but the fault itself,
so that it works after a crash of the injector, too. A fault kind is a subclass. Its fields besides `target`, `at` and
`duration` are its keys in an experiment; they need defaults, and types that JSON can express, annotated with bounds.
"""

import json
import re
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Protocol, get_type_hints

from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.contract.command.refusals import expected_in_words
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.target import CLIENT_ROLES, Target

Nodes = tuple[NodeControl, ...]

DOWN = "down"
FROZEN = "frozen"
"""States in which faults may hold a node. The last of these faults to end brings the node back."""

PROOF_TIMEOUT = 10.0  # seconds that a proof may take, unless its kind says otherwise

_COMMON_FIELDS = ("target", "at", "duration")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a fault took effect, and the evidence; if it did not, `reason` says what was missing.

    `since_ns`: when it took effect, in nanoseconds of the monotonic clock, if the evidence says so.
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


class PlannedCluster(Protocol):
    """The properties of a cluster that are known before it starts."""

    @property
    def metadata_mode(self) -> str:
        """`zookeeper` or `kraft`."""

    @property
    def tiered_storage(self) -> bool:
        """Whether brokers have a remote store."""

    def at_least(self, version: str) -> bool:
        """Whether all brokers are of this version of Kafka, or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A timed fault. `at` and `duration` are seconds; `at` counts from the start of the load.

    A kind is a subclass. Its docstring is its entry in the reference, and says what the kind breaks and what its proof
    is. The class sets `kind` and `appearance`, and overrides `inject`, `proof` and `heal`, or what they do on each node
    (`_inject`, `_proof`, `_heal`). Everything else has a default.
    """

    target: Target
    at: float = 0.0
    duration: float = 0.0

    kind: ClassVar[str]
    """The kind's name in experiments and reports."""
    appearance: ClassVar[Appearance]
    in_words: ClassVar[str | None] = None
    """The sentence that describes one node's evidence, with the evidence's keys in braces."""
    counts_as: ClassVar[str | None] = None
    """The fault kind that the model expects once for each broker hit; None: it expects nothing of brokers."""
    holds: ClassVar[str | None] = None
    """The state in which the fault keeps its nodes, such as `DOWN`. The last fault to end brings them back."""
    ends_with_process: ClassVar[bool] = False
    """A restart of the node ends the fault, so the injector injects it again; a second injection must do no harm."""
    since: ClassVar[tuple[str, str] | None] = None
    """The first version of Kafka on which the fault is possible, and by what means."""
    needs_zookeeper: ClassVar[str | None] = None
    """Why the fault is impossible in KRaft mode, and what to write there instead; None if it is possible."""
    needs_disk: ClassVar[bool] = False
    """If a schedule has this kind, brokers get disks of their own (`NodeControl.disk`)."""
    needs_links: ClassVar[bool] = False
    """If a schedule has this kind, every connection to a broker or controller passes a link (`NodeControl.link`)."""
    avoids_links: ClassVar[bool] = False
    """The kind can't act on connections that pass links: no schedule has it together with a kind that needs links."""
    needs_clock: ClassVar[bool] = False
    """If a schedule has this kind, nodes have wall clocks that can be moved (`NodeControl.clock`)."""
    only_brokers: ClassVar[bool] = False
    """Servers that are not brokers are refused as targets."""
    hits_clients: ClassVar[bool] = False
    """The targets are clients, which run as processes of this machine, and never servers."""
    crashes_members: ClassVar[bool] = False
    """In the model, each member hit counts as one more crash in the lane's group."""
    spares_other_lanes: ClassVar[bool] = False
    """A fault that names a `lane` changes nothing for other lanes, and the model does not expect the fault in them."""
    leaves_nodes_alone: ClassVar[bool] = False
    """The targets keep running and stay connected, so the fault never costs a quorum."""
    proof_timeout: ClassVar[float] = PROOF_TIMEOUT
    """Seconds that the proof may take."""

    @staticmethod
    def unavailable() -> str | None:
        """Why faults of this kind are impossible on this machine, and what they need; None if they are possible."""
        return None

    @classmethod
    def refusal(cls, cluster: PlannedCluster) -> str | None:
        """Why faults of this kind are impossible on this cluster, and what to write instead; None if possible."""
        if cls.needs_zookeeper is not None and cluster.metadata_mode == KRAFT:
            return cls.needs_zookeeper
        if cls.since is None or cluster.at_least(cls.since[0]):
            return None
        return f"{cls.since[1]}: expected Kafka {cls.since[0]} or later"

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """The evidence of one node in words, for reports: the sentence `in_words`, or else its keys and values."""
        return as_text(evidence) if cls.in_words is None else cls.in_words.format_map(evidence)

    def model_faults(self, brokers: int) -> tuple[str, ...]:
        """The faults that the reference model must expect in a cluster of this size: `counts_as` once per broker hit.

        A fault that hits ZooKeeper, or KRaft's controllers, may instead end the session of any broker.
        """
        if self.counts_as is None:
            return ()
        if self.target.role in ("zookeeper", "controllers"):
            return ("session-expiry",) * brokers
        return (self.counts_as,) * self.target.brokers_hit(brokers)

    def can_begin(self, cluster: ClusterControl, nodes: Nodes) -> bool:
        """Whether all that the fault needs besides its target is ready; the injector waits until this is true."""
        return True

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Break the nodes, each by `_inject` unless the kind overrides this."""
        run_on_all(nodes, lambda node: self._inject(cluster, node))

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Show that the fault took effect on every node. Called before the fault is healed."""
        return all_took_effect({node.name: self._proof(cluster, node) for node in nodes})

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Undo the damage, and wait until everything works again; servers that the fault holds down are started."""
        if self.holds == DOWN:
            cluster.start_again(nodes)
        else:
            run_on_all(nodes, lambda node: self._heal(cluster, node))

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        raise NotImplementedError

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        raise NotImplementedError

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        """Do nothing by default: many faults leave nothing broken on a node."""

    def _noted(self, cluster: ClusterControl) -> dict[Any, Any]:
        """This fault's notes, by which its proof compares the state before the fault with the state after it."""
        noted: dict[Any, Any] = cluster.noted.setdefault(self.stable_name, {})
        return noted

    @property
    def stable_name(self) -> str:
        """A short name, computed from all values of this fault: it is the same after a crash of the injector."""
        return f"{self.kind}-{zlib.crc32(repr(self).encode()):08x}"


def run_on_all(nodes: Nodes, action: Callable[[NodeControl], object]) -> None:
    """Run an action on all nodes at the same time, and wait until it has ended on each; raises the first error."""
    if len(nodes) == 1:
        action(nodes[0])
        return
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as threads:
        for future in [threads.submit(action, node) for node in nodes]:
            future.result()


def all_took_effect(proofs: Mapping[str, Proof]) -> Proof:
    """The proof of a fault, from one proof for each node: the fault took effect if it did so on every node."""
    missing = {name: proof.reason for name, proof in proofs.items() if not proof.took_effect}
    evidence = {name: dict(proof.evidence) for name, proof in proofs.items()}
    reason = "; ".join(f"{name}: {why}" for name, why in missing.items())
    times = [proof.since_ns for proof in proofs.values() if proof.since_ns is not None]
    since_ns = max(times) if proofs and len(times) == len(proofs) else None
    return Proof(bool(proofs) and not missing, evidence, reason or ("" if proofs else "no target was hit"), since_ns)


def fits(kind: type[Fault], target: Target) -> bool:
    """Whether a kind may have this target: kinds that hit clients need clients, all others need servers."""
    return kind.hits_clients == (target.role in CLIENT_ROLES)


def can_go_together(kind: type[Fault], other: type[Fault]) -> bool:
    """Whether one schedule may have faults of both kinds."""
    return not (kind.needs_links and other.avoids_links) and not (kind.avoids_links and other.needs_links)


def concerns(fault: Fault, lane: str) -> bool:
    """Whether a fault may change anything for a lane under load."""
    return not fault.spares_other_lanes or parameters(fault).get("lane") in (None, lane)


def parameters(fault: Fault) -> dict[str, Any]:
    """The values of a fault's own keys, as in an experiment file."""
    return {name: getattr(fault, name) for name in key_types(type(fault))}


def key_types(kind: type[Fault], *, bounds: bool = False) -> dict[str, Any]:
    """The types of a kind's keys in an experiment, without target and times. With `bounds`, the types are annotated
    with the values that are valid."""
    types = get_type_hints(kind, include_extras=bounds)
    return {entry.name: types[entry.name] for entry in fields(kind) if entry.name not in _COMMON_FIELDS}


def defaults(kind: type[Fault]) -> dict[str, Any]:
    """The default of each key of a kind, as a JSON value."""
    by_name = {entry.name: entry.default for entry in fields(kind)}
    as_json: dict[str, Any] = json.loads(json.dumps({name: by_name[name] for name in key_types(kind)}))
    return as_json


def build(kind: type[Fault], *, target: Target, at: float, duration: float, keys: Mapping[str, Any]) -> Fault:
    """A fault of this kind; raises `ValueError` of the form `KEY: what was expected`.

    A key whose value is None takes its default.
    """
    from pydantic import TypeAdapter, ValidationError

    types = key_types(kind, bounds=True)
    values: dict[str, Any] = {}
    for key, value in keys.items():
        if value is None:
            continue
        if key not in types:
            possible = ", ".join(("fault", *_COMMON_FIELDS, *types))
            raise ValueError(f"{key}: a fault of kind {kind.kind} has no such key; expected {possible}")
        try:
            # Validated as JSON: a list may become a tuple, but no text becomes a number.
            values[key] = TypeAdapter(types[key]).validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            message = f"{key}: expected {expected_in_words(error.errors()[0])}, got {quoted(value)}"
            raise ValueError(message) from None
    return kind(target=target, at=at, duration=duration, **values)


def as_text(value: object) -> str:
    """A value of a proof's evidence as text: keys and values, without brackets."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {as_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(as_text(item) for item in value)
    return str(value)
