"""The interface of a fault, and the proof that it bit.

A fault is a frozen value: what, at whom, when, for how long. Its three functions are idempotent, take the containers
that its target was resolved to, and keep no state of their own: whatever heals has only the value to go by, after a
crash of the injector too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.target import Target

Nodes = tuple[NodeControl, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a fault bit, with what shows it; `reason` says what was missing when it did not."""

    bit: bool
    evidence: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


class Fault(Protocol):
    """A timed fault. `at` and `duration` are seconds; `at` counts from the start of the load.

    `kind` is its name in experiments and reports, `model_kinds` what a lane that lives through it tells the model
    (entries of `faults` in lanes.json), `colour` its band in plots.
    """

    kind: ClassVar[str]
    model_kinds: ClassVar[tuple[str, ...]]
    colour: ClassVar[str]

    @property
    def target(self) -> Target:
        """Who is hit, by role."""
        ...

    @property
    def at(self) -> float:
        """When, in seconds from the start of the load."""
        ...

    @property
    def duration(self) -> float:
        """For how long until it is healed, in seconds."""
        ...

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Break it."""
        ...

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Show that it is broken, while it is."""
        ...

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Mend it, and wait until it is mended."""
        ...


def all_bit(proofs: Mapping[str, Proof]) -> Proof:
    """One proof out of the proofs per container: it bit if it bit everywhere."""
    missing = {name: proof.reason for name, proof in proofs.items() if not proof.bit}
    evidence = {name: dict(proof.evidence) for name, proof in proofs.items()}
    reason = "; ".join(f"{name}: {why}" for name, why in missing.items())
    return Proof(bool(proofs) and not missing, evidence, reason or ("" if proofs else "it had no target"))
