"""`lost-index`: a broker comes back without the indexes of its segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.storage.log_files import OnLogFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class LostIndex(OnLogFiles):
    """Kill the brokers, and remove the offset and time indexes of their segments, with `lane` that lane's alone. They
    are made anew from the segments. Its proof: each process is gone, and so is each index, by name and size."""

    lane: str | None = None
    kind: ClassVar[str] = "lost-index"
    appearance: ClassVar[Appearance] = Appearance("#57606a", "#b4bfca", Pattern.DIAGONALS)
    script: ClassVar[str] = """
for folder in $(partitions "$@"); do lose "$folder"/*.index "$folder"/*.timeindex; done
"""
