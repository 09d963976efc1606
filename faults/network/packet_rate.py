"""`packet-rate`: a narrow network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.network.queued import Queued, counted_wait


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketRate(Queued):
    """Let at most `kbit_per_second` of what the peers send to the target arrive, all peers together. The rest waits for
    its turn. `peers` and `direction` are those of `packet-delay`; each direction has the rate for itself. Its proof:
    packets that have waited, counted and timed by whoever let them wait."""

    kbit_per_second: float = 1000.0
    kind: ClassVar[str] = "packet-rate"
    appearance: ClassVar[Appearance] = Appearance("#8c5a1f", "#e0b070", Pattern.DIAGONALS)
    describe_evidence = staticmethod(counted_wait)

    def __post_init__(self) -> None:
        Queued.__post_init__(self)
        if not self.kbit_per_second > 0:
            raise ValueError(f"kbit_per_second: {self.kbit_per_second:g} is not valid: expected more than 0")

    def _treatment(self) -> dict[str, Any]:
        return {"bits_per_second": self.kbit_per_second * 1000}
