"""Emits an event whenever an injector requests, proves or heals a fault."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from kafka_chaos.contract.events import FaultHealed, FaultNotProven, FaultProven, FaultRequested
from kafka_chaos.faults.fault import Fault, concerns, parameters
from kafka_chaos.faults.injector import Observer
from kafka_chaos.harness.event_bus import EventBus


@dataclass
class FaultEvents(Observer):
    """Observes an injector for the lanes of one phase, whose name is part of the fault ids."""

    events: EventBus
    _: KW_ONLY
    phase: str
    lanes: tuple[str, ...]
    brokers: int  # in the cluster

    def requested(self, fault_id: str, fault: Fault, resolved: tuple[str, ...], *, late: float | None) -> None:
        self.events.emit(
            FaultRequested(
                fault_id=self._full_id(fault_id),
                kind=fault.kind,
                target=fault.target.text,
                resolved=resolved,
                lanes=tuple(lane for lane in self.lanes if concerns(fault, lane)),
                parameters=parameters(fault),
                model_faults=fault.model_faults(self.brokers),
                at=None if late is None else fault.at,  # None in a lock-step phase: its faults have no times
                duration=None if late is None else fault.duration,
                late=None if late is None else round(late, 3),
            )
        )

    def proven(self, fault_id: str, evidence: Mapping[str, Any], *, applied_ns: int) -> None:
        proven = FaultProven(fault_id=self._full_id(fault_id), evidence=dict(evidence), applied_ns=applied_ns)
        self.events.emit(proven)

    def not_proven(self, fault_id: str, reason: str) -> None:
        self.events.emit(FaultNotProven(fault_id=self._full_id(fault_id), reason=reason))

    def healed(self, fault_id: str) -> None:
        self.events.emit(FaultHealed(fault_id=self._full_id(fault_id)))

    def _full_id(self, fault_id: str) -> str:
        return f"{self.phase}/{fault_id}"
