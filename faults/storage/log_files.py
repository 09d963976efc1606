"""Shared by the kinds that take files of a broker's log directories: the broker dies, and comes back without them.

The process is suspended first, so that it writes nothing any more while commands inside the container still run; then
the files are taken, and the process is killed. To the broker that starts again it is the same as if they had gone while
it was down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.contract.errors import counted, first_of
from kafka_chaos.faults.cluster import ClusterControl, NodeControl, inside_of
from kafka_chaos.faults.fault import DOWN, Fault, Proof

Sizes = Mapping[str, int]
"""Bytes by path, inside a container."""

SHOWN = 3
_OF_EVERY_KIND = """
set -eu
topic=$1; bytes=$2; shift 2
partitions() { # The folders of all partitions, or of the topic's, but never the log of KRaft's metadata.
  for directory; do
    for folder in "$directory"/*; do
      name=${folder##*/}
      case ${name##*-} in '' | *[!0-9]*) continue ;; esac
      [ "${name%-*}" != __cluster_metadata ] || continue
      if [ -d "$folder" ] && { [ -z "$topic" ] || [ "${name%-*}" = "$topic" ]; }; then echo "$folder"; fi
    done
  done
}
lose() { # Files that are there; each is told with its size.
  for file; do
    if [ -f "$file" ]; then stat -c '%s %n' "$file"; rm "$file"; fi
  done
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnLogFiles(Fault):
    """A broker that dies, and files of its log directories that it does not find when it comes back."""

    # No record is in these files.
    counts_as: ClassVar[str] = "kill"
    holds: ClassVar[str] = DOWN
    only_brokers: ClassVar[bool] = True
    script: ClassVar[str]
    """What happens to the files, in the shell: it tells each with its former size. `topic` is empty for all topics."""

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
        """What is to be left of a file of that size; None: nothing, not even the file."""
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
