"""`packet-reorder`: a network whose packets overtake each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern, Proof
from kafka_chaos.faults.network.queued import Queued


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketReorder(Queued):
    """Let `percent` of the packets that the peers send to the target arrive `seconds` later, so that others overtake
    them. TCP puts them in order again, and everything is slower. `peers` and `direction` are those of `packet-delay`.
    Its proof: packets that later ones of their connection have overtaken, counted by whoever let them wait."""

    percent: float = 10.0
    seconds: float = 0.05
    kind: ClassVar[str] = "packet-reorder"
    appearance: ClassVar[Appearance] = Appearance("#7a4b8c", "#c7a0d8", Pattern.CROSSES)

    def __post_init__(self) -> None:
        Queued.__post_init__(self)
        if not 0 < self.percent < 100:
            raise ValueError(f"percent: {self.percent:g} is not valid: expected more than 0 and less than 100")
        if not self.seconds > 0:
            raise ValueError(f"seconds: {self.seconds:g} is not valid: expected more than 0")

    def _treatment(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "percent": self.percent, "in_order": False}

    def _shown(self, tally: Mapping[str, Any]) -> Proof:
        if not tally["overtaken"]:
            return Proof(False, dict(tally), "no packet was overtaken yet")
        return Proof(True, dict(tally))

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many packets were overtaken."""
        return f"{evidence['overtaken']:,} of {evidence['packets']:,} packets were overtaken"
