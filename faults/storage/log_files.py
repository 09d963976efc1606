"""The fault kinds that remove or change files of a broker's log directories while they kill the broker.

The process is suspended first: it writes nothing any more, but commands still run inside the container. Then the files
are changed, and the process is killed. A broker that starts again can't tell when they changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from kafka_chaos.contract.command.errors import counted, first_of
from kafka_chaos.contract.command.files import package_text
from kafka_chaos.faults.cluster import ClusterControl, NodeControl, shell_of
from kafka_chaos.faults.fault import DOWN, Appearance, Fault, Pattern, Proof

Sizes = Mapping[str, int]
"""The sizes of files in bytes, by their paths inside a container."""

MOST_SHOWN = 3  # files that a message names
_SHELL_FUNCTIONS = package_text(__package__, "log_files.sh")
_BYTES = b"kafka-chaos was "
"""The bytes that `corrupted-segment` writes. They damage any batch that they hit: a checksum covers all but its first
17 bytes (12 in formats 0 and 1); written within those, they overwrite the batch's length, which then is too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileFault(Fault):
    """A fault that kills a broker, and removes or changes files of its log directories."""

    # Like a kill, the fault loses no record. Kinds that change records override this.
    counts_as: ClassVar[str] = "kill"
    holds: ClassVar[str] = DOWN
    only_brokers: ClassVar[bool] = True
    script: ClassVar[str]
    """The shell script that changes the files, and prints the former size and the path of each. `log_files.sh`, which
    runs first, provides functions, the variables `topic` and `bytes`, and the log directories as arguments."""

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        if not node.is_running():
            return
        lane, size, shell = getattr(self, "lane", None), getattr(self, "bytes", 0), shell_of(node)
        topic = "" if lane is None else cluster.topic(lane)
        shell.suspend()
        try:
            script = ("sh", "-c", _SHELL_FUNCTIONS + self.script, "sh", topic, str(size), *cluster.log_directories)
            changed = [line.split(" ", 1) for line in shell.must_execute(*script).splitlines()]
            self._noted(cluster)[node.name] = {path: int(former_size) for former_size, path in changed}
        finally:
            node.kill()

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """How many bytes are gone from how many files, with the names of some files."""
        files = evidence["files"]
        lost = sum(before - (now or 0) for before, now in files.values())
        names = [path.removeprefix("/") for path in files]
        return f"{lost:,} bytes of {counted(len(files), 'file')} gone: {first_of(names, MOST_SHOWN)}"

    def _size_after(self, size: int) -> int | None:
        """The size that the fault leaves a file of `size` bytes; None if the fault removes the file."""
        return None

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        before: Sizes = self._noted(cluster).get(node.name, {})
        if node.state()["Running"]:
            return Proof(False, {}, "the process still runs")
        if not before:
            return Proof(False, {}, "it had no file to change, or had ended before the fault")
        return self._change_proof(node, before)

    def _change_proof(self, node: NodeControl, before: Sizes) -> Proof:
        """The proof that each file has the size `_size_after`: read by the engine, since the container does not run."""
        files = {path: (size, shell_of(node).file_size(path)) for path, size in before.items()}
        unchanged = [path for path, (size, now) in files.items() if now != self._size_after(size)]
        return Proof(not unchanged, {"files": files}, f"not changed as expected: {first_of(unchanged, MOST_SHOWN)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCheckpoint(LogFileFault):
    """Kill the brokers, and remove all checkpoints of their log directories: of high watermarks, recovery points, log
    starts, the cleaner's progress, and each partition's leader epochs. Brokers recover from their segments, which hold
    all records. Proof: each process is gone, and so are the files, which the fault had listed."""

    kind: ClassVar[str] = "lost-checkpoint"
    appearance: ClassVar[Appearance] = Appearance("#6d4c1f", "#cfa56b", Pattern.DOTS)
    script: ClassVar[str] = """
for directory; do
  lose "$directory"/replication-offset-checkpoint "$directory"/recovery-point-offset-checkpoint \
    "$directory"/log-start-offset-checkpoint "$directory"/cleaner-offset-checkpoint
done
for folder in $(partitions "$@"); do lose "$folder"/leader-epoch-checkpoint; done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostIndex(LogFileFault):
    """Kill the brokers, and remove the offset and time indexes of their segments, with `lane` only that lane's indexes.
    Brokers make new ones from the segments. Proof: each process is gone, and so are the broker's indexes."""

    lane: str | None = None
    kind: ClassVar[str] = "lost-index"
    appearance: ClassVar[Appearance] = Appearance("#57606a", "#b4bfca", Pattern.DIAGONALS)
    script: ClassVar[str] = """
for folder in $(partitions "$@"); do lose "$folder"/*.index "$folder"/*.timeindex; done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedSegment(LogFileFault):
    """Kill the brokers, and cut the last `bytes` off the newest segment of each partition, or all of a shorter segment.
    With `lane`, only that lane's partitions are hit. If the cut goes through a batch, the broker drops the rest of the
    batch. Proof: each process is gone, and each of these files is shorter by `bytes`, or empty."""

    lane: str | None = None
    bytes: Annotated[int, Ge(1)] = 10_000
    kind: ClassVar[str] = "truncated-segment"
    # The narrowest fault of the model that covers this one: any number of a log's last records may be lost. A loss of
    # power may take that many from the newest segment, since brokers flush a segment only when the next one begins.
    counts_as: ClassVar[str] = "power-loss"
    appearance: ClassVar[Appearance] = Appearance("#a02c5a", "#f08bb4", Pattern.BACK_DIAGONALS)
    script: ClassVar[str] = """
for folder in $(partitions "$@"); do
  newest=$(ls "$folder"/*.log 2>/dev/null | tail -n 1)
  if [ -s "$newest" ]; then stat -c '%s %n' "$newest"; truncate -s "-$bytes" "$newest"; fi
done
"""

    def _size_after(self, size: int) -> int | None:
        return max(0, size - self.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptedSegment(LogFileFault):
    """Kill the brokers, and overwrite 16 bytes of the newest segment of each partition. They begin `bytes` bytes before
    the segment's end, or at the beginning of a shorter segment. With `lane`, only that lane's partitions are hit. A
    broker that recovers drops the batch whose checksum is wrong, and all that follow. Proof: each process is gone,
    and each file has its former size with the new bytes in it."""

    lane: str | None = None
    bytes: Annotated[int, Ge(len(_BYTES))] = 10_000
    kind: ClassVar[str] = "corrupted-segment"
    # The narrowest fault of the model that covers this one: any number of a log's last records may be lost.
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

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """The files, each with the position of the new bytes."""
        files = [f"{path.removeprefix('/')} at {position}" for path, position in evidence["files"].items()]
        return f"bytes of {counted(len(files), 'file')} overwritten: {first_of(files, MOST_SHOWN)}"

    def _change_proof(self, node: NodeControl, before: Sizes) -> Proof:
        """The proof that the files have the new bytes, and their former sizes."""
        positions = {path: max(0, size - self.bytes) for path, size in before.items()}
        shell = shell_of(node)
        unchanged = [
            path
            for path, position in positions.items()
            if shell.file_size(path) != before[path] or shell.read_at(path, position, len(_BYTES)) != _BYTES
        ]
        return Proof(not unchanged, {"files": positions}, f"not overwritten: {first_of(unchanged, MOST_SHOWN)}")
