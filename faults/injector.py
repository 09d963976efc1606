"""Injects faults at their times, collects their proofs, and heals all of them on every way out.

Faults of a schedule run side by side. A fault waits for another only where both change the same container's process:
while that one changes it, and until that one has healed it if the schedule ends it before. Faults that overlap on a
container have these rules:

- Of faults that hold a container down (or frozen), the last one to end brings it back.
- What ends a frozen process ends its freeze.
- A fault that a restart would end, such as a partition, applies again once its container is back. If it was not proven
  before, it begins then: its proof and its duration count from there.

A fault whose target nobody is at its time, such as the leader amid an election, waits until somebody is. So does one
that needs more than its target (`can_begin`), until that is there.

The injector emits no events. It calls an observer instead, which makes it testable without a cluster.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from kafka_chaos.faults.cluster import ClusterControl
from kafka_chaos.faults.fault import Fault, Nodes, Proof
from kafka_chaos.faults.target import TargetError, VacantRoleError


@dataclass(eq=False)
class Occurrence:
    """One fault whose target is resolved, with the containers that it hits. Times are those of `time.monotonic()`."""

    number: int
    fault: Fault
    nodes: Nodes
    due: float | None
    """When its schedule wants it; None without a schedule."""
    injected_at: float | None = None
    """None: it waits for others to end."""
    applied_ns: int = 0
    """When it took effect as its proof tells, else when its injection was done; on the monotonic clock."""
    proven: bool = False
    ended: bool = False
    """It is healed, or is about to be: it holds no container any more."""
    healing: bool = False
    """Its containers are being brought back."""

    @property
    def fault_id(self) -> str:
        """Its name in events."""
        return f"{self.fault.kind}-{self.number}"

    def begins_again(self) -> None:
        """It was applied again: it begins now, unless it was proven to have begun before."""
        if not self.proven:
            self.injected_at, self.applied_ns = time.monotonic(), time.monotonic_ns()

    def took_effect(self, since_ns: int | None) -> None:
        """It is proven, and since when, if its proof tells; what was so before it was injected is not its effect."""
        self.proven = True
        if since_ns is not None and self.injected_at is not None and self.injected_at * 1e9 <= since_ns:
            self.applied_ns = min(self.applied_ns, since_ns)

    def holds(self, name: str, state: str | None) -> bool:
        """Whether it keeps this container in this state."""
        applies = self.injected_at is not None and not self.ended
        return applies and self.fault.holds == state and self.hits(name)

    def hits(self, *names: str) -> bool:
        """Whether it hits one of these containers."""
        return any(node.name in names for node in self.nodes)

    def comes_after(self, other: Occurrence) -> bool:
        """Whether the schedule ends the other, which changes the same container's process, before this one is due."""
        if self.due is None or other.due is None or other.number >= self.number:
            return False
        if self.fault.ends_with_process or other.fault.ends_with_process:
            return False
        return other.due + other.fault.duration <= self.due and other.hits(*(node.name for node in self.nodes))


ROLE_TIMEOUT = 60.0
"""Seconds that a role may be vacant: elections take seconds, and many of them on a machine that is short of time."""
_PROOF_INTERVAL = 0.1
_CANCELLED_INTERVAL = 0.1
_TURN_INTERVAL = 0.05
_ROLE_INTERVAL = 0.2


class Observer(Protocol):
    """Is called at each step of the injector, from several threads; `fault_id` identifies one fault."""

    def requested(self, fault_id: str, fault: Fault, resolved: tuple[str, ...], *, late: float | None) -> None:
        """The fault is about to be injected into these containers, `late` seconds after its time in the schedule.

        `late` None: it has no time, since it belongs to a lock-step phase.
        """

    def proven(self, fault_id: str, evidence: Mapping[str, Any], *, applied_ns: int) -> None:
        """It took effect, at `applied_ns` on the monotonic clock."""

    def not_proven(self, fault_id: str, reason: str) -> None:
        """Nothing showed that it took effect."""

    def healed(self, fault_id: str) -> None:
        """It is healed."""


class Injector:
    """Injects and heals; as a context manager it heals whatever is still broken when the block ends."""

    def __init__(self, cluster: ClusterControl, observer: Observer, *, seed: int) -> None:
        self._cluster = cluster
        self._observer = observer
        self._seed = seed
        self._count = 0
        self._occurrences: list[Occurrence] = []
        self._changing: defaultdict[tuple[str, bool], threading.RLock] = defaultdict(threading.RLock)
        """By container, and whether a restart ends the fault: held while such a fault changes the container."""
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal_all()

    def inject(self, fault: Fault) -> Occurrence:
        """Resolve the target, inject, and wait for the proof (at most its `proof_timeout`).

        Raises `TargetError` if the cluster has no such target, or nobody holds the role within `ROLE_TIMEOUT` seconds.
        """
        return self._inject(fault, self._next_number(), None, threading.Event())

    def heal(self, occurrence: Occurrence) -> None:
        """Heal one fault, unless it is healed already."""
        with self._change(occurrence.fault, occurrence.nodes):
            if occurrence.ended or occurrence.injected_at is None:
                return
            occurrence.ended = occurrence.healing = True
            try:
                self._heal(occurrence)
            except BaseException:
                occurrence.ended = False
                raise
            finally:
                occurrence.healing = False
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
        """Inject each fault at `start + at` and heal it `duration` later, side by side; returns after the last one.

        `start` is a reading of `time.monotonic()`. `cancelled` ends the wait early; `heal_all` then heals what is still
        broken. The first error ends the wait, too, and is raised.
        """
        if not faults:
            return
        ended = threading.Event()
        # Numbered by time, so that a seed chooses the same targets every time.
        numbered = [(self._next_number(), fault) for fault in sorted(faults, key=lambda fault: fault.at)]
        with ThreadPoolExecutor(max_workers=len(faults), thread_name_prefix="fault") as threads:
            try:
                lives = [threads.submit(self._live, fault, number, start, ended) for number, fault in numbered]
                while not cancelled.is_set():
                    done, pending = wait(lives, timeout=_CANCELLED_INTERVAL, return_when=FIRST_EXCEPTION)
                    if not pending or any(life.exception() for life in done):
                        break
            finally:
                ended.set()
        for life in lives:
            life.result()

    def _live(self, fault: Fault, number: int, start: float, ended: threading.Event) -> None:
        due = start + fault.at
        if ended.wait(max(0.0, due - time.monotonic())):
            return
        occurrence = self._inject(fault, number, due, ended)
        if occurrence.injected_at is None:
            return
        if not ended.wait(max(0.0, occurrence.injected_at + fault.duration - time.monotonic())):
            self.heal(occurrence)

    def _inject(self, fault: Fault, number: int, due: float | None, ended: threading.Event) -> Occurrence:
        try:
            nodes = self._resolve(fault, number, ended)
        except TargetError as error:
            nowhere = Occurrence(number, fault, (), due)
            self._observer.requested(nowhere.fault_id, fault, (), late=_late(due))
            self._observer.not_proven(nowhere.fault_id, str(error))
            raise
        occurrence = Occurrence(number, fault, nodes or (), due)
        if nodes is None:
            return occurrence
        self._occurrences.append(occurrence)
        while any(occurrence.comes_after(other) and not other.ended for other in list(self._occurrences)):
            if ended.wait(_TURN_INTERVAL):
                return occurrence
        if not self._await_beginning(occurrence, ended):
            return occurrence
        with self._change(fault, nodes):
            self._observer.requested(occurrence.fault_id, fault, tuple(node.name for node in nodes), late=_late(due))
            # Noted before it is injected: a fault whose injection fails half-way must be healed, too.
            occurrence.injected_at = time.monotonic()
            fault.inject(self._cluster, nodes)
            occurrence.applied_ns = time.monotonic_ns()
        proof = self._await_proof(occurrence, ended)
        if proof.took_effect:
            occurrence.took_effect(proof.since_ns)
            self._observer.proven(occurrence.fault_id, proof.evidence, applied_ns=occurrence.applied_ns)
        else:
            self._observer.not_proven(occurrence.fault_id, proof.reason)
        return occurrence

    def _resolve(self, fault: Fault, number: int, ended: threading.Event) -> Nodes | None:
        """The containers that hold the target's role, once somebody does; None if the schedule ended before."""
        deadline = time.monotonic() + ROLE_TIMEOUT
        while True:
            try:
                return fault.target.resolve(self._cluster, self._seed + number)
            except VacantRoleError:
                if time.monotonic() > deadline:
                    raise
            if ended.wait(_ROLE_INTERVAL):
                return None

    def _await_beginning(self, occurrence: Occurrence, ended: threading.Event) -> bool:
        """Wait until it can begin, and no longer than for a role; False if the schedule ended before."""
        deadline = time.monotonic() + ROLE_TIMEOUT
        while not occurrence.fault.can_begin(self._cluster, occurrence.nodes):
            if time.monotonic() > deadline:
                return True
            if ended.wait(_ROLE_INTERVAL):
                return False
        return True

    def _heal(self, occurrence: Occurrence) -> None:
        """Heal what no other fault holds in the same state; then apply again what a restart has ended."""
        state, others = occurrence.fault.holds, list(self._occurrences)
        free = tuple(
            node
            for node in occurrence.nodes
            if state is None or not any(other.holds(node.name, state) for other in others)
        )
        if not free:
            return
        occurrence.fault.heal(self._cluster, free)
        if occurrence.fault.ends_with_process:
            return
        back = {node.name for node in free}
        # Those that began during the restart count, too: they may have changed what the restart replaced.
        for other in list(self._occurrences):
            if other.fault.ends_with_process and other.hits(*back):
                with self._change(other.fault, other.nodes):
                    if other.injected_at is not None and not other.ended:
                        other.fault.inject(self._cluster, other.nodes)
                        other.begins_again()

    def _await_proof(self, occurrence: Occurrence, ended: threading.Event) -> Proof:
        timeout = occurrence.fault.proof_timeout
        deadline = time.monotonic() + timeout
        while True:
            # Asked before the proof, which may be too early: it applies again as the last step of the restart.
            if self._is_restarted(occurrence):
                deadline = time.monotonic() + timeout
            proof = occurrence.fault.proof(self._cluster, occurrence.nodes)
            if proof.took_effect or time.monotonic() > deadline or ended.wait(_PROOF_INTERVAL):
                return proof

    def _is_restarted(self, occurrence: Occurrence) -> bool:
        """Whether another fault is bringing back a container whose restart ends this one."""
        names = [node.name for node in occurrence.nodes]
        return occurrence.fault.ends_with_process and any(
            other.healing and not other.fault.ends_with_process and other.hits(*names)
            for other in list(self._occurrences)
        )

    @contextmanager
    def _change(self, fault: Fault, nodes: Nodes) -> Iterator[None]:
        """Keeps other faults from changing the same of these containers.

        Locks are taken in the order of names, and those of processes first, so that nobody waits in a circle.
        """
        with ExitStack() as held:
            for name in sorted({node.name for node in nodes}):
                with self._lock:
                    changing = self._changing[name, fault.ends_with_process]
                held.enter_context(changing)
            yield

    def _next_number(self) -> int:
        with self._lock:
            self._count += 1
            return self._count


def _late(due: float | None) -> float | None:
    return None if due is None else max(0.0, time.monotonic() - due)
