"""`drop`: requests or responses that get lost without a sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.links.on_frames import OnFrames


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(OnFrames):
    """Lose requests to the targets, or their responses. All that follows one in its direction of its connection is lost
    with it, as in a network that swallows packets, until its sender gives the connection up; those left at the fault's
    end are closed. Its proof: the frames lost, counted, with their correlation ids."""

    kind: ClassVar[str] = "drop"
    appearance: ClassVar[Appearance] = Appearance("#a8324a", "#f093a5", Pattern.BACK_DIAGONALS)
