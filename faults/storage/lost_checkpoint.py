"""`lost-checkpoint`: a broker comes back without its checkpoints, and has its segments alone to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.storage.log_files import OnLogFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCheckpoint(OnLogFiles):
    """Kill the brokers, and remove all checkpoints of their log directories: high watermarks, recovery points, log
    starts, the cleaner's, and every partition's leader epochs. What records brokers have is in the segments, from which
    they recover. Its proof: each process is gone, and so is each file that was there, by name and size."""

    kind: ClassVar[str] = "lost-checkpoint"
    appearance: ClassVar[Appearance] = Appearance("#6d4c1f", "#cfa56b", Pattern.DOTS)
    script: ClassVar[str] = """
for directory; do
  lose "$directory"/replication-offset-checkpoint "$directory"/recovery-point-offset-checkpoint \
    "$directory"/log-start-offset-checkpoint "$directory"/cleaner-offset-checkpoint
done
for folder in $(partitions "$@"); do lose "$folder"/leader-epoch-checkpoint; done
"""
