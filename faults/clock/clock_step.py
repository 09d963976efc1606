"""`clock-step`: a wall clock that jumps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.clock.clocks import MOST_SECONDS, MovedClock
from kafka_chaos.faults.fault import Appearance, Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep(MovedClock):
    """Set the wall clocks of the targets `seconds` ahead (or behind, if negative), and back at the fault's end. One
    that begins with the load and lasts is a skew. The monotonic clock goes on as it was. Its proof: each process tells
    that time, asked by the JVM's attach mechanism."""

    seconds: float = 60.0
    kind: ClassVar[str] = "clock-step"
    appearance: ClassVar[Appearance] = Appearance("#9a3b5b", "#e08aa8", Pattern.LINES)

    def __post_init__(self) -> None:
        if not 1 <= abs(self.seconds) <= MOST_SECONDS:
            raise ValueError(
                f"seconds: {self.seconds:g} is not valid: expected 1 to {MOST_SECONDS}, or -{MOST_SECONDS} to -1"
            )

    @property
    def furthest(self) -> float:
        """What it steps."""
        return abs(self.seconds)

    def _shift(self) -> dict[str, float]:
        return {"seconds": self.seconds}
