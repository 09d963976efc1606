"""Injects faults at their times, collects their proofs, and heals all of them on every way out.

The injector emits no events. It calls an observer instead, which makes it testable without a cluster.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka_chaos.faults.cluster import ClusterControl
from kafka_chaos.faults.fault import Fault, Nodes, Proof
from kafka_chaos.faults.target import TargetError

PROOF_TIMEOUT = 10.0
_PROOF_INTERVAL = 0.1


class Observer(Protocol):
    """Is called at each step of the injector; `fault_id` identifies one fault."""

    def requested(self, fault_id: str, fault: Fault, resolved: tuple[str, ...]) -> None:
        """The fault is about to be injected into these containers."""
        ...

    def proven(self, fault_id: str, evidence: Mapping[str, Any]) -> None:
        """It took effect."""
        ...

    def not_proven(self, fault_id: str, reason: str) -> None:
        """Nothing showed that it took effect."""
        ...

    def healed(self, fault_id: str) -> None:
        """It is healed."""
        ...


@dataclass
class Occurrence:
    """One fault that was injected, with the containers that it hit."""

    fault_id: str
    fault: Fault
    nodes: Nodes
    injected_at: float
    healed: bool = field(default=False)


class Injector:
    """Injects and heals; as a context manager it heals whatever is still broken when the block ends."""

    def __init__(self, cluster: ClusterControl, observer: Observer, *, seed: int) -> None:
        self._cluster = cluster
        self._observer = observer
        self._seed = seed
        self._count = itertools.count(1)
        self._occurrences: list[Occurrence] = []

    def __enter__(self) -> Injector:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal_all()

    def inject(self, fault: Fault) -> Occurrence:
        """Resolve the target, inject, and wait for the proof (at most `PROOF_TIMEOUT` seconds)."""
        number = next(self._count)
        fault_id = f"{fault.kind}-{number}"
        try:
            nodes = fault.target.resolve(self._cluster, self._seed + number)
        except TargetError as error:
            self._observer.requested(fault_id, fault, ())
            self._observer.not_proven(fault_id, str(error))
            raise
        self._observer.requested(fault_id, fault, tuple(node.name for node in nodes))
        occurrence = Occurrence(fault_id, fault, nodes, time.monotonic())
        # Noted before it is injected: a fault whose injection fails half-way must be healed, too.
        self._occurrences.append(occurrence)
        fault.inject(self._cluster, nodes)
        proof = self._await_proof(occurrence)
        if proof.took_effect:
            self._observer.proven(fault_id, proof.evidence)
        else:
            self._observer.not_proven(fault_id, proof.reason)
        return occurrence

    def heal(self, occurrence: Occurrence) -> None:
        """Heal one fault, unless it is healed already."""
        if not occurrence.healed:
            occurrence.fault.heal(self._cluster, occurrence.nodes)
            occurrence.healed = True
            self._observer.healed(occurrence.fault_id)

    def heal_all(self) -> None:
        """Heal all faults, the latest first. An error is raised only after healing every one was tried."""
        errors: list[Exception] = []
        for occurrence in reversed(self._occurrences):
            try:
                self.heal(occurrence)
            except Exception as error:  # noqa: BLE001 - raised below, after the others were healed
                errors.append(error)
        if errors:
            raise errors[0]

    def run(self, faults: Sequence[Fault], *, start: float, cancelled: threading.Event) -> None:
        """Inject each fault at `start + at` and heal it `duration` later, in order of time; returns after the last one.

        `start` is a reading of `time.monotonic()`. `cancelled` ends the wait early; `heal_all` then heals what is still
        broken.
        """
        order = itertools.count()
        queue: list[tuple[float, int, Fault | Occurrence]] = [(fault.at, next(order), fault) for fault in faults]
        heapq.heapify(queue)
        while queue and not cancelled.is_set():
            due, _, entry = heapq.heappop(queue)
            if cancelled.wait(max(0.0, start + due - time.monotonic())):
                return
            if isinstance(entry, Occurrence):
                self.heal(entry)
            else:
                occurrence = self.inject(entry)
                heal_at = max(occurrence.injected_at - start + entry.duration, due)
                heapq.heappush(queue, (heal_at, next(order), occurrence))

    def _await_proof(self, occurrence: Occurrence) -> Proof:
        deadline = time.monotonic() + PROOF_TIMEOUT
        waiting = threading.Event()
        while True:
            proof = occurrence.fault.proof(self._cluster, occurrence.nodes)
            if proof.took_effect or time.monotonic() > deadline:
                return proof
            waiting.wait(_PROOF_INTERVAL)
