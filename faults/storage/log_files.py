"""The kinds that take or change files of a broker's log directories: the broker dies, and comes back without them.

The process is suspended first, so that it writes nothing any more while commands inside the container still run; then
the files are taken, and the process is killed. To the broker that starts again it is the same as if they had gone while
it was down.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from kafka_chaos.contract.command.errors import counted, first_of
from kafka_chaos.contract.command.files import text_in
from kafka_chaos.faults.cluster import ClusterControl, NodeControl, inside_of
from kafka_chaos.faults.fault import DOWN, Appearance, Fault, Pattern, Proof

Sizes = Mapping[str, int]
"""Bytes by path, inside a container."""

SHOWN = 3
_OF_EVERY_KIND = text_in(__package__, "log_files.sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnLogFiles(Fault):
    """A broker that dies, and files of its log directories that it does not find when it comes back."""

    # No record is in these files.
    counts_as: ClassVar[str] = "kill"
    holds: ClassVar[str] = DOWN
    only_brokers: ClassVar[bool] = True
    script: ClassVar[str]
    """The shell script that changes the files: it prints each with its former size. `topic` is empty for all topics."""

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        """Suspend the process, take the files, and kill the process."""
        if not node.is_running():
            return
        lane, taken, inside = getattr(self, "lane", None), getattr(self, "bytes", 0), inside_of(node)
        topic = "" if lane is None else cluster.topic(lane)
        inside.suspend()
        try:
            script = ("sh", "-c", _OF_EVERY_KIND + self.script, "sh", topic, str(taken), *cluster.log_directories)
            told = [line.split(" ", 1) for line in inside.must_execute(*script).splitlines()]
            self._noted(cluster)[node.name] = {path: int(size) for size, path in told}
        finally:
            node.kill()

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """How many files, how many bytes of them, and some of their names."""
        files = evidence["files"]
        lost = sum(before - (now or 0) for before, now in files.values())
        names = [path.removeprefix("/") for path in files]
        return f"{lost:,} bytes of {counted(len(files), 'file')} gone: {first_of(names, SHOWN)}"

    def _left(self, size: int) -> int | None:
        """The size that a file of that size is cut to; None: the file is removed."""
        return None

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        """The process is gone, and so are the files, or their ends, as the Docker engine sees them."""
        before: Sizes = self._noted(cluster).get(node.name, {})
        if node.state()["Running"]:
            return Proof(False, {}, "the process still runs")
        if not before:
            return Proof(False, {}, "there was no such file, or its process was gone before")
        return self._seen(node, before)

    def _seen(self, node: NodeControl, before: Sizes) -> Proof:
        files = {path: (size, inside_of(node).file_size(path)) for path, size in before.items()}
        kept = [path for path, (size, now) in files.items() if now != self._left(size)]
        return Proof(not kept, {"files": files}, f"still there: {first_of(kept, SHOWN)}")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedSegment(OnLogFiles):
    """Kill the brokers, and cut the last `bytes` off the newest segment of each partition, with `lane` of that lane's
    alone; of a shorter one, all. Where a cut goes through a batch, the broker drops what is left of it. Its proof: each
    process is gone, and each of these files is as much shorter."""

    lane: str | None = None
    bytes: Annotated[int, Ge(1)] = 10_000
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

    def _left(self, size: int) -> int | None:
        return max(0, size - self.bytes)


_BYTES = b"kafka-chaos was "
"""Longer than what of a batch has no checksum, and no length that a segment could have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptedSegment(OnLogFiles):
    """Kill the brokers, and overwrite 16 bytes of the newest segment of each partition, so many `bytes` before its end,
    with `lane` of that lane's alone; of a shorter one, its beginning. A broker that recovers drops the batch whose
    checksum is wrong, and all that follow. Its proof: each process is gone, each file has its former size, and has the
    other bytes in it."""

    lane: str | None = None
    bytes: Annotated[int, Ge(len(_BYTES))] = 10_000
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
