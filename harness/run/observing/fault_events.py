"""Turns the steps of the injector into events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_chaos.contract.events import FaultHealed, FaultNotProven, FaultProven, FaultRequested
from kafka_chaos.faults.fault import Fault, parameters
from kafka_chaos.faults.injector import Observer
from kafka_chaos.harness.event_bus import EventBus


class FaultEvents(Observer):
    """Observes an injector for the lanes of one phase; fault ids contain the phase's name."""

    def __init__(self, events: EventBus, *, phase: str, lanes: tuple[str, ...]) -> None:
        self._events = events
        self._phase = phase
        self._lanes = lanes

    def requested(self, fault_id: str, fault: Fault, resolved: tuple[str, ...], *, late: float | None) -> None:
        self._events.emit(
            FaultRequested(
                fault_id=self._name(fault_id),
                kind=fault.kind,
                target=fault.target.text,
                resolved=resolved,
                lanes=self._lanes,
                parameters=parameters(fault),
                model_faults=fault.model_faults(len(resolved)),
                at=None if late is None else fault.at,
                duration=None if late is None else fault.duration,
                late=None if late is None else round(late, 3),
            )
        )

    def proven(self, fault_id: str, evidence: Mapping[str, Any], *, applied_ns: int) -> None:
        proven = FaultProven(fault_id=self._name(fault_id), evidence=dict(evidence), applied_ns=applied_ns)
        self._events.emit(proven)

    def not_proven(self, fault_id: str, reason: str) -> None:
        self._events.emit(FaultNotProven(fault_id=self._name(fault_id), reason=reason))

    def healed(self, fault_id: str) -> None:
        self._events.emit(FaultHealed(fault_id=self._name(fault_id)))

    def _name(self, fault_id: str) -> str:
        return f"{self._phase}/{fault_id}"
