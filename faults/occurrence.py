"""One fault of a schedule on its way: whom it hits, when it began, and whom it waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kafka_chaos.faults.fault import Fault, Nodes


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
