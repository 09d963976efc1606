"""`clock-drift`: a wall clock that goes too fast or too slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.clock.clocks import MOST_SECONDS, MovedClock
from kafka_chaos.faults.fault import Appearance, Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDrift(MovedClock):
    """Let the wall clocks of the targets go `percent` too fast (or too slow, if negative), in steps of about a second,
    and set them right at the fault's end. The monotonic clock goes on as it was. Its proof: each process tells that it
    is off by as much, asked by the JVM's attach mechanism."""

    percent: float = 10.0
    kind: ClassVar[str] = "clock-drift"
    appearance: ClassVar[Appearance] = Appearance("#6d4a2f", "#c9a282", Pattern.BACK_DIAGONALS)

    def __post_init__(self) -> None:
        if not 1 <= abs(self.percent) <= 100:
            raise ValueError(f"percent: {self.percent:g} is not valid: expected 1 to 100, or -100 to -1")
        if self.furthest > MOST_SECONDS:
            raise ValueError(f"duration: {self.duration:g} is not valid: the clock would be off by {self.furthest:g} s")

    @property
    def furthest(self) -> float:
        """What it has drifted at its end."""
        return abs(self.percent) / 100 * self.duration

    def _shift(self) -> dict[str, float]:
        return {"per_second": self.percent / 100}
