"""`cut`: connections that break right after a request, or right before its response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.links.on_frames import OnFrames


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(OnFrames):
    """Break the connection: with `side: request` as soon as the request has gone on to the target, which handles it;
    with `side: response` as soon as the target has answered. Whoever asked learns nothing either way. Its proof: the
    frames after or before which it was cut, counted, with their correlation ids."""

    kind: ClassVar[str] = "cut"
    appearance: ClassVar[Appearance] = Appearance("#2f6b3a", "#8fd19e", Pattern.CROSSES)
