"""`hold`: requests or responses that stay on their way until the fault ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.links.on_frames import OnFrames

THEN = ("release", "drop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(OnFrames):
    """Hold requests to the targets, or their responses, until the fault ends. `then` is what happens to them at the
    end: `release` or `drop`. What comes after one on its connection waits behind it. Whoever sent it may have given
    up by then; it arrives all the same. Its proof: the frames held, counted, with their correlation ids."""

    then: str = "release"
    kind: ClassVar[str] = "hold"
    appearance: ClassVar[Appearance] = Appearance("#6b4fa0", "#b9a3e3", Pattern.DOTS)

    def __post_init__(self) -> None:
        OnFrames.__post_init__(self)
        if self.then not in THEN:
            raise ValueError(f"then: {self.then!r} is not valid: expected {' or '.join(THEN)}")

    def _releases(self) -> bool:
        return self.then == "release"
