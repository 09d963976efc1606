"""`truncated-segment`: the end of a log is gone when its broker comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.storage.log_files import OnLogFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedSegment(OnLogFiles):
    """Kill the brokers, and cut the last `bytes` off the newest segment of each partition, with `lane` of that lane's
    alone; of a shorter one, all. Where a cut goes through a batch, the broker drops what is left of it. Its proof: each
    process is gone, and each of these files is as much shorter."""

    lane: str | None = None
    bytes: int = 10_000
    kind: ClassVar[str] = "truncated-segment"
    # The model has nothing narrower: any end of a log may be gone. Brokers flush no segment before the next one
    # begins, so a loss of power may take as much of the newest.
    counts_as: ClassVar[str] = "power-loss"
    appearance: ClassVar[Appearance] = Appearance("#a02c5a", "#f08bb4", Pattern.BACK_DIAGONALS)
    script: ClassVar[str] = """
for folder in $(partitions "$@"); do
  newest=$(ls "$folder"/*.log 2>/dev/null | tail -n 1)
  if [ -s "$newest" ]; then stat -c '%s %n' "$newest"; truncate -s "-$bytes" "$newest"; fi
done
"""

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise ValueError(f"bytes: {self.bytes} is not valid: expected at least 1")

    def _left(self, size: int) -> int | None:
        return max(0, size - self.bytes)
