"""`corrupted-segment`: bytes of a log are others when its broker comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.contract.errors import counted, first_of
from kafka_chaos.faults.cluster import NodeControl, inside_of
from kafka_chaos.faults.fault import Appearance, Pattern, Proof
from kafka_chaos.faults.storage.log_files import SHOWN, OnLogFiles, Sizes

_BYTES = b"kafka-chaos was "
"""Longer than what of a batch has no checksum, and no length that a segment could have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptedSegment(OnLogFiles):
    """Kill the brokers, and overwrite 16 bytes of the newest segment of each partition, so many `bytes` before its end,
    with `lane` of that lane's alone; of a shorter one, its beginning. A broker that recovers drops the batch whose
    checksum is wrong, and all that follow. Its proof: each process is gone, each file has its former size, and has the
    other bytes in it."""

    lane: str | None = None
    bytes: int = 10_000
    kind: ClassVar[str] = "corrupted-segment"
    # The model has nothing narrower: any end of a log may be gone.
    counts_as: ClassVar[str] = "power-loss"
    appearance: ClassVar[Appearance] = Appearance("#8a3a8a", "#dd9add", Pattern.CROSSES)
    script: ClassVar[str] = f"""
for folder in $(partitions "$@"); do
  newest=$(ls "$folder"/*.log 2>/dev/null | tail -n 1)
  [ -s "$newest" ] || continue
  size=$(stat -c %s "$newest")
  echo "$size $newest"
  printf '{_BYTES.decode()}' | dd of="$newest" bs=1 seek=$((size > bytes ? size - bytes : 0)) conv=notrunc status=none
done
"""

    def __post_init__(self) -> None:
        if self.bytes < len(_BYTES):
            raise ValueError(f"bytes: {self.bytes} is not valid: expected at least {len(_BYTES)}")

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """Which files, and from where on."""
        told = [f"{path.removeprefix('/')} at {place}" for path, place in evidence["files"].items()]
        return f"bytes of {counted(len(told), 'file')} overwritten: {first_of(told, SHOWN)}"

    def _seen(self, node: NodeControl, before: Sizes) -> Proof:
        places = {path: max(0, size - self.bytes) for path, size in before.items()}
        inside = inside_of(node)
        missing = [
            path
            for path, place in places.items()
            if inside.file_size(path) != before[path] or inside.read_at(path, place, len(_BYTES)) != _BYTES
        ]
        return Proof(not missing, {"files": places}, f"not overwritten: {first_of(missing, SHOWN)}")
