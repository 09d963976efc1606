"""Injects faults at their times, collects their proofs, and heals all faults, however a run ends.

Faults of a schedule run side by side, but two faults never change the same node's process at the same moment. If
the schedule ends one of them before the other is due, the other waits until the first is healed. These rules hold for
faults that overlap on a node:

- If several faults hold a node down (or frozen), the last one to end brings it back.
- A fault that ends a frozen process ends the freeze, too.
- A fault that a restart would end, such as a partition, is applied again once its node is back. If it was not
  proven before, its duration and the time for its proof count from then on.

If no node has the target's role when a fault is due, as during an election, the fault waits for one. It also waits for
whatever else it needs (`can_begin`).

The injector itself emits no events. It reports each step to an observer, and the run's observer emits the events.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from kafka_chaos.faults.cluster import ClusterControl
from kafka_chaos.faults.fault import Fault, Nodes, Proof
from kafka_chaos.faults.target import TargetError, VacantRoleError

ROLE_TIMEOUT = 60.0  # seconds that a role may be vacant: on an overloaded machine, an election takes many seconds
_PROOF_INTERVAL = 0.1  # seconds between two attempts to prove a fault
_CANCELLED_INTERVAL = 0.1  # seconds between two looks at whether the schedule is cancelled
_TURN_INTERVAL = 0.05  # seconds between two looks at whether an earlier fault is over
_ROLE_INTERVAL = 0.2  # seconds between two looks at whether a node has the role, and the fault can begin


@dataclass(eq=False)
class Occurrence:
    """A fault with the nodes that its target was resolved to. Times come from `time.monotonic()`."""

    number: int
    fault: Fault
    nodes: Nodes
    due: float | None
    """The time that the schedule gives the fault; None without a schedule."""
    injected_at: float | None = None
    """When the fault's injection began; None before that."""
    applied_ns: int = 0
    """When the fault took effect, as its proof tells, or else when its injection ended; in `time.monotonic_ns()`."""
    proven: bool = False
    ended: bool = False
    """Whether the fault is healed or being healed, so that it no longer holds any node."""
    healing: bool = False
    """Whether the fault's nodes are being brought back."""

    @property
    def fault_id(self) -> str:
        """The fault's name in events, such as `kill-1`."""
        return f"{self.fault.kind}-{self.number}"

    def note_proven(self, since_ns: int | None) -> None:
        """Note that the fault is proven, and since when if the proof tells. A time before the injection is ignored."""
        self.proven = True
        if since_ns is not None and self.injected_at is not None and self.injected_at * 1e9 <= since_ns:
            self.applied_ns = min(self.applied_ns, since_ns)

    def holds(self, name: str, state: str | None) -> bool:
        """Whether the fault keeps this node in this state, such as `DOWN`."""
        applies = self.injected_at is not None and not self.ended
        return applies and self.fault.holds == state and self.hits(name)

    def hits(self, *names: str) -> bool:
        """Whether the fault hits one of these nodes."""
        return any(node.name in names for node in self.nodes)

    def comes_after(self, other: Occurrence) -> bool:
        """Whether both faults change the same node's process, and the other's time ends before this one is due."""
        if self.due is None or other.due is None or other.number >= self.number:
            return False
        if self.fault.ends_with_process or other.fault.ends_with_process:
            return False  # A fault that ends with the process does not change the process.
        return other.due + other.fault.duration <= self.due and other.hits(*(node.name for node in self.nodes))


class Observer(Protocol):
    """Called at each step of the injector, from several threads. `fault_id` identifies a fault."""

    def requested(self, fault_id: str, fault: Fault, resolved: tuple[str, ...], *, late: float | None) -> None:
        """The fault is about to be injected into these nodes, `late` seconds after its time in the schedule.

        `late` is None if the fault has no time, because it belongs to a lock-step phase.
        """

    def proven(self, fault_id: str, evidence: Mapping[str, Any], *, applied_ns: int) -> None:
        """The fault took effect, at `applied_ns` on the monotonic clock."""

    def not_proven(self, fault_id: str, reason: str) -> None:
        """Nothing showed that the fault took effect."""

    def healed(self, fault_id: str) -> None:
        """The fault is healed."""


class Injector(AbstractContextManager["Injector"]):
    """Injects and heals faults. As a context manager, it heals whatever is still broken when the block ends."""

    def __init__(self, cluster: ClusterControl, observer: Observer, *, seed: int) -> None:
        self._cluster = cluster
        self._observer = observer
        self._seed = seed
        self._count = 0
        self._occurrences: list[Occurrence] = []
        self._node_locks: defaultdict[tuple[str, bool], threading.RLock] = defaultdict(threading.RLock)
        """For each node and `Fault.ends_with_process`: the lock that faults with this value hold to change the node."""
        self._lock = threading.Lock()

    def __exit__(self, *_: object) -> None:
        self.heal_all()

    def inject(self, fault: Fault) -> Occurrence:
        """Resolve the target, inject, and wait for the proof (at most its `proof_timeout`).

        Raises `TargetError` if the cluster has no such target, or no node has the role within `ROLE_TIMEOUT` seconds.
        """
        never_stopped = threading.Event()
        return self._inject(fault, self._next_number(), None, never_stopped)

    @property
    def broken(self) -> dict[str, Occurrence]:
        """The faults in effect by their ids, in the order of their injections; proven or not."""
        occurrences = list(self._occurrences)
        return {each.fault_id: each for each in occurrences if each.injected_at is not None and not each.ended}

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
        """Heal all faults, the latest first. Once each was tried, the first error is raised."""
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

        `start` is a reading of `time.monotonic()`. `cancelled` and the first error end the schedule early: then
        `heal_all` has to heal what is still broken. The error is raised.
        """
        if not faults:
            return
        stopped = threading.Event()
        # Numbered by time: the number is part of the seed that chooses the target.
        numbered = [(self._next_number(), fault) for fault in sorted(faults, key=lambda fault: fault.at)]
        with ThreadPoolExecutor(max_workers=len(faults), thread_name_prefix="fault") as threads:
            try:
                futures = [threads.submit(self._run_one, fault, number, start, stopped) for number, fault in numbered]
                while not cancelled.is_set():
                    done, pending = wait(futures, timeout=_CANCELLED_INTERVAL, return_when=FIRST_EXCEPTION)
                    if not pending or any(future.exception() for future in done):
                        break
            finally:
                stopped.set()
        for future in futures:
            future.result()

    def _run_one(self, fault: Fault, number: int, start: float, stopped: threading.Event) -> None:
        """Inject a fault when it is due and heal it after its duration, unless the schedule was `stopped` before."""
        due = start + fault.at
        if stopped.wait(max(0.0, due - time.monotonic())):
            return
        occurrence = self._inject(fault, number, due, stopped)
        if occurrence.injected_at is None:
            return
        if not stopped.wait(max(0.0, occurrence.injected_at + fault.duration - time.monotonic())):
            self.heal(occurrence)

    def _inject(self, fault: Fault, number: int, due: float | None, stopped: threading.Event) -> Occurrence:
        try:
            nodes = self._resolve(fault, number, stopped)
        except TargetError as error:
            unresolved = Occurrence(number, fault, (), due)
            self._observer.requested(unresolved.fault_id, fault, (), late=_seconds_late(due))
            self._observer.not_proven(unresolved.fault_id, str(error))
            raise
        occurrence = Occurrence(number, fault, nodes or (), due)
        if nodes is None:
            return occurrence
        self._occurrences.append(occurrence)
        while any(occurrence.comes_after(other) and not other.ended for other in list(self._occurrences)):
            if stopped.wait(_TURN_INTERVAL):
                return occurrence
        if not self._await_beginning(occurrence, stopped):
            return occurrence
        with self._change(fault, nodes):
            names, late = tuple(node.name for node in nodes), _seconds_late(due)
            self._observer.requested(occurrence.fault_id, fault, names, late=late)
            # Noted before it is injected: a fault whose injection fails half-way must be healed, too.
            occurrence.injected_at = time.monotonic()
            fault.inject(self._cluster, nodes)
            occurrence.applied_ns = time.monotonic_ns()
        proof = self._await_proof(occurrence, stopped)
        if proof.took_effect:
            occurrence.note_proven(proof.since_ns)
            self._observer.proven(occurrence.fault_id, proof.evidence, applied_ns=occurrence.applied_ns)
        else:
            self._observer.not_proven(occurrence.fault_id, proof.reason)
        return occurrence

    def _resolve(self, fault: Fault, number: int, stopped: threading.Event) -> Nodes | None:
        """Wait for nodes that have the target's role; None if the schedule was `stopped` before."""
        deadline = time.monotonic() + ROLE_TIMEOUT
        while True:
            try:
                return fault.target.resolve(self._cluster, self._seed + number)
            except VacantRoleError:
                if time.monotonic() > deadline:
                    raise
            if stopped.wait(_ROLE_INTERVAL):
                return None

    def _await_beginning(self, occurrence: Occurrence, stopped: threading.Event) -> bool:
        """Wait until the fault can begin, at most `ROLE_TIMEOUT` seconds. False if `stopped` is set before that."""
        deadline = time.monotonic() + ROLE_TIMEOUT
        while not occurrence.fault.can_begin(self._cluster, occurrence.nodes):
            if time.monotonic() > deadline:
                return True  # The fault is injected anyway, and its proof says if that had any effect.
            if stopped.wait(_ROLE_INTERVAL):
                return False
        return True

    def _heal(self, occurrence: Occurrence) -> None:
        """Heal the nodes that no other fault holds in the same state; then apply faults again that a restart ended."""
        state, others = occurrence.fault.holds, list(self._occurrences)
        held = {node.name for node in occurrence.nodes if any(other.holds(node.name, state) for other in others)}
        nodes = tuple(node for node in occurrence.nodes if state is None or node.name not in held)
        if not nodes:
            return
        occurrence.fault.heal(self._cluster, nodes)
        if occurrence.fault.ends_with_process:
            return
        names = {node.name for node in nodes}
        # Faults that began during the restart count, too: they may have changed what the restart replaced.
        for other in list(self._occurrences):
            if other.fault.ends_with_process and other.hits(*names):
                with self._change(other.fault, other.nodes):
                    if other.injected_at is not None and not other.ended:
                        other.fault.inject(self._cluster, other.nodes)
                        if not other.proven:
                            # Its duration and its time of effect count from now on.
                            other.injected_at, other.applied_ns = time.monotonic(), time.monotonic_ns()

    def _await_proof(self, occurrence: Occurrence, stopped: threading.Event) -> Proof:
        """The first proof that the fault took effect; if `proof_timeout` ends before, the last attempt's result."""
        timeout = occurrence.fault.proof_timeout
        deadline = time.monotonic() + timeout
        while True:
            # While another fault restarts a node of this fault, this fault is applied anew: its time begins again.
            if self._is_restarted(occurrence):
                deadline = time.monotonic() + timeout
            proof = occurrence.fault.proof(self._cluster, occurrence.nodes)
            if proof.took_effect or time.monotonic() > deadline or stopped.wait(_PROOF_INTERVAL):
                return proof

    def _is_restarted(self, occurrence: Occurrence) -> bool:
        """Whether another fault's healing restarts a node, which ends this fault until it is applied again."""
        names = [node.name for node in occurrence.nodes]
        return occurrence.fault.ends_with_process and any(
            other.healing and not other.fault.ends_with_process and other.hits(*names)
            for other in list(self._occurrences)
        )

    @contextmanager
    def _change(self, fault: Fault, nodes: Nodes) -> Iterator[None]:
        """Keep other faults with the same `ends_with_process` from changing these nodes meanwhile.

        Every fault takes the locks in the order of the nodes' names. A fault that restarts nodes may then take locks of
        faults that end with the process (`_heal`), never the other way round: no deadlock can arise.
        """
        with ExitStack() as held:
            for name in sorted({node.name for node in nodes}):
                with self._lock:
                    changing = self._node_locks[name, fault.ends_with_process]
                held.enter_context(changing)
            yield

    def _next_number(self) -> int:
        with self._lock:
            self._count += 1
            return self._count


def _seconds_late(due: float | None) -> float | None:
    return None if due is None else max(0.0, time.monotonic() - due)
