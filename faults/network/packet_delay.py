"""`packet-delay`: a long way between nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.network.queued import Queued, counted_wait


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketDelay(Queued):
    """Let packets that the peers send to the target arrive `seconds` later, and by chance up to `jitter` more. None
    overtakes another. `peers` are the other nodes of the target's kind, or `brokers`, `controllers`, nodes by id,
    `clients` or `everyone`; `direction` is `in`, `out` (what the target sends) or `both`. Its proof: packets that have
    waited, counted and timed by whoever let them wait."""

    seconds: float = 0.1
    jitter: float = 0.0
    kind: ClassVar[str] = "packet-delay"
    appearance: ClassVar[Appearance] = Appearance("#2f6b5e", "#7fcdbb", Pattern.LINES)
    describe_evidence = staticmethod(counted_wait)

    def __post_init__(self) -> None:
        Queued.__post_init__(self)
        if self.seconds < 0 or self.jitter < 0 or not self.seconds + self.jitter > 0:
            raise ValueError(
                f"seconds: {self.seconds:g} with jitter {self.jitter:g} is not valid: expected more than 0"
            )

    def _treatment(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "jitter": self.jitter}
