"""The fault kinds that move the wall clocks of nodes.

They set `needs_clock`: only if a schedule has such a fault does the cluster get clocks that can be moved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.contract.command.errors import KafkaChaosError, UsageFailure
from kafka_chaos.faults.cluster import ClockControl, ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Fault, Pattern, Proof
from kafka_chaos.faults.machine import why_not_here

OFFSET_LIMIT_SECONDS = 1800
"""Half of what brokers of Kafka 4 tolerate: they refuse records from more than an hour ahead of their own clock."""
_LEAST_PROVEN = 0.05  # seconds: a smaller move of a clock proves nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedClock(Fault):
    """A fault that moves a wall clock until the fault ends. A restart of the process does not set the clock right."""

    # `counts_as` stays None: neither leadership nor acknowledgements depend on wall clocks. A leader whose clock jumps
    # may take a follower for slow, but the model lets that happen without any fault.
    needs_clock: ClassVar[bool] = True
    # True although a moved clock outlives its process: so this fault need not wait for faults that end the process.
    ends_with_process: ClassVar[bool] = True

    @staticmethod
    def unavailable() -> str | None:
        """Why this machine can't move clocks, and what would be needed; None if it can."""
        return why_not_here("clocks are in the containers' processes", capabilities="CAP_SYS_ADMIN and CAP_NET_ADMIN")

    @property
    def max_offset_seconds(self) -> float:
        """The most seconds that the clock will be ahead or behind; each kind overrides this."""
        raise NotImplementedError

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        clock_of(node).shift(self.stable_name, **self._shift_arguments())

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        clock_of(node).end(self.stable_name)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """The sentence that says how far off the process's clock was."""
        ahead = evidence["ahead"]
        return f"the process's own clock was {abs(ahead):,.2f} s {'ahead' if ahead > 0 else 'behind'}"

    def _shift_arguments(self) -> dict[str, float]:
        """The arguments of `ClockControl.shift`; each kind overrides this."""
        raise NotImplementedError

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        try:
            reading = clock_of(node).reading(self.stable_name)
        except (KafkaChaosError, OSError) as failure:
            return Proof(took_effect=False, reason=str(failure))
        if reading is None:
            return Proof(took_effect=False, reason="its process does not run, or its clock was not moved")
        ahead, wanted, own_shift = reading["ahead"], reading["by_all_shifts"], reading["by_this_shift"]
        evidence = {"ahead": round(ahead, 3)}
        if abs(own_shift) < _LEAST_PROVEN:
            return Proof(took_effect=False, evidence=evidence, reason="its clock has hardly moved yet")
        # The process reads a drifting clock once a second, so it may lag behind. But its offset has to be nearer to the
        # sum of all shifts than to the sum without this fault's shift.
        tolerance = _LEAST_PROVEN + abs(own_shift) / 5
        without_own = wanted - own_shift
        if abs(ahead - wanted) > tolerance or 2 * abs(ahead - without_own) < abs(own_shift):
            reason = f"its process's clock is {ahead:+.2f} s off, not {wanted:+.2f} s"
            return Proof(took_effect=False, evidence=evidence, reason=reason)
        return Proof(took_effect=True, evidence=evidence)


def clock_of(node: NodeControl) -> ClockControl:
    """The clock of a node; raises `UsageFailure` if it can't be moved."""
    if node.clock is None:
        raise UsageFailure(f"the clock of {node.name} can't be moved: start the cluster with clocks")
    return node.clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDrift(MovedClock):
    """Let the wall clocks of the targets run `percent` too fast (or too slow, if negative), in steps of about a second,
    and set them right at the fault's end. The monotonic clock stays right. Proof: each process, asked by the JVM's
    attach mechanism, tells a time that is off by the drift so far."""

    percent: float = 10.0
    kind: ClassVar[str] = "clock-drift"
    appearance: ClassVar[Appearance] = Appearance("#6d4a2f", "#c9a282", Pattern.BACK_DIAGONALS)

    def __post_init__(self) -> None:
        if not 1 <= abs(self.percent) <= 100:
            raise ValueError(f"percent: {self.percent:g} is not valid: expected 1 to 100, or -100 to -1")
        if self.max_offset_seconds > OFFSET_LIMIT_SECONDS:
            off = f"the clock would be off by {self.max_offset_seconds:g} s"
            raise ValueError(f"duration: {self.duration:g} is not valid: {off}")

    @property
    def max_offset_seconds(self) -> float:
        """How many seconds the clock is off when the fault ends."""
        return abs(self.percent) / 100 * self.duration

    def _shift_arguments(self) -> dict[str, float]:
        return {"per_second": self.percent / 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep(MovedClock):
    """Set the wall clocks of the targets `seconds` ahead (or behind, if negative), and back at the fault's end. A step
    that lasts for the whole load is a skew. The monotonic clock stays right. Proof: each process, asked by the
    JVM's attach mechanism, tells a time that is off by the step."""

    seconds: float = 60.0
    kind: ClassVar[str] = "clock-step"
    appearance: ClassVar[Appearance] = Appearance("#9a3b5b", "#e08aa8", Pattern.LINES)

    def __post_init__(self) -> None:
        if not 1 <= abs(self.seconds) <= OFFSET_LIMIT_SECONDS:
            expected = f"1 to {OFFSET_LIMIT_SECONDS}, or -{OFFSET_LIMIT_SECONDS} to -1"
            raise ValueError(f"seconds: {self.seconds:g} is not valid: expected {expected}")

    @property
    def max_offset_seconds(self) -> float:
        """The size of the step in seconds, forwards or back."""
        return abs(self.seconds)

    def _shift_arguments(self) -> dict[str, float]:
        return {"seconds": self.seconds}
