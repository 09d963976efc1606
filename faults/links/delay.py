"""`delay`: requests or responses that take longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.links.on_frames import OnFrames


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(OnFrames):
    """Let requests to the targets, or their responses, arrive `seconds` later, but at the fault's end at the latest.
    What comes after one on its connection waits behind it. Its proof: the frames delayed, counted, with their
    correlation ids."""

    seconds: float = 1.0
    kind: ClassVar[str] = "delay"
    appearance: ClassVar[Appearance] = Appearance("#7a5c00", "#d9b84a", Pattern.LINES)

    def __post_init__(self) -> None:
        OnFrames.__post_init__(self)
        if not self.seconds > 0:
            raise ValueError(f"seconds: {self.seconds:g} is not valid: expected more than 0")

    def _action(self) -> dict[str, Any]:
        return {"action": self.kind, "seconds": self.seconds}
