"""The fault kinds that break brokers' own disks. A cluster has such disks only if its schedule needs them."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.contract.command.errors import UsageFailure, counted, first_of
from kafka_chaos.faults.cluster import ClusterControl, DiskControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Appearance, Fault, Nodes, Pattern, Proof, run_on_all
from kafka_chaos.faults.machine import why_not_here
from kafka_chaos.faults.storage.log_files import MOST_SHOWN

_TOOLS = ("mkfs.ext4", "mount", "umount", "losetup")
_FIRST_SIGNAL_CODE = 128  # an exit code from here on says that a signal ended the process


def why_no_disks() -> str | None:
    """Why brokers can't have disks of their own on this machine, and what would be needed; None if they can."""
    if (reason := why_not_here("disks are loop mounts", capabilities="CAP_SYS_ADMIN")) is not None:
        return reason
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(missing)} not found in PATH: install e2fsprogs, mount and util-linux"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices: load the kernel's module loop"
    return None


def disk_of(node: NodeControl) -> DiskControl:
    """The disk of a container; raises `UsageFailure` if it has none of its own."""
    if node.disk is None:
        raise UsageFailure(f"{node.name} has no disk of its own: start the cluster with disk_mib")
    return node.disk


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFault(Fault):
    """A fault that breaks brokers' own disks."""

    needs_disk: ClassVar[bool] = True

    unavailable = staticmethod(why_no_disks)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFault(DiskFault):
    """A fault of a disk that then refuses writes. Sooner or later, the broker ends by itself, without a controlled
    shutdown. The healing kills a broker that has not ended yet, and starts it with a repaired disk."""

    holds: ClassVar[str] = DOWN

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Kill the brokers whose disks are still broken, and start all of them again."""

        def kill_if_broken(node: NodeControl) -> None:
            disk = disk_of(node)
            if disk.is_filled() or disk.is_read_only() or any(disk.failing_segments().values()):
                node.kill()

        run_on_all(nodes, kill_if_broken)
        cluster.start_again(nodes)


def _broker_state(node: NodeControl) -> dict[str, Any]:
    """The evidence of whether a broker still runs, and of how it ended."""
    state = node.state()
    return {"Running": state["Running"], "ExitCode": state.get("ExitCode")}


def _described_state(evidence: Mapping[str, Any]) -> str:
    return "the broker still ran" if evidence["Running"] else f"the broker ended with {evidence['ExitCode']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FullDisk(WriteFault):
    """The disks of the brokers are filled to the last block. A broker whose write fails takes its log directory
    offline, and ends if it has no other. Proof: the file system has no free block left, or the broker has ended by
    itself, which may free some blocks."""

    kind: ClassVar[str] = "full-disk"
    # The broker ends without a controlled shutdown, and keeps what it had written.
    counts_as: ClassVar[str] = "kill"
    appearance: ClassVar[Appearance] = Appearance("#7a5c2e", "#d3ae72", Pattern.LINES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).fill()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        disk, state = disk_of(node), _broker_state(node)
        free = disk.free_bytes()
        evidence = {"free_bytes": free, **state}
        if not disk.is_filled():
            return Proof(False, evidence, "its disk was not filled")
        # When a process ends, blocks that it had reserved for its files become free.
        ended_by_itself = not state["Running"] and 0 < int(state["ExitCode"]) < _FIRST_SIGNAL_CODE
        return Proof(free == 0 or ended_by_itself, evidence, f"{free} bytes of its disk are free")

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How full the disk is, and what became of the broker."""
        return f"{evidence['free_bytes']:,} bytes free; {_described_state(evidence)}"


# ext4 behaves like this with `errors=remount-ro`, the usual setting of Debian and others. What was not flushed by then
# never reaches the disk: it is gone when the broker, which ends at the failed write, comes back.
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyDisk(WriteFault):
    """The file systems of the brokers meet a disk error and become read-only; what was not flushed is lost.
    A broker whose write fails takes its log directory offline, and ends if it has no other. Proof: a write is
    refused with EROFS."""

    kind: ClassVar[str] = "read-only-disk"
    # The broker ends, and what it had not flushed is gone when it is back.
    counts_as: ClassVar[str] = "power-loss"
    appearance: ClassVar[Appearance] = Appearance("#4d6b2f", "#a9cc83", Pattern.BACK_DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).fail()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        evidence = {"refused": disk_of(node).is_read_only(), **_broker_state(node)}
        return Proof(evidence["refused"], evidence, "its disk takes writes")

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """That a write was refused, and what became of the broker."""
        return f"a write was refused: read-only file system; {_described_state(evidence)}"


# A disk stalls if its controller is broken or its storage network hangs. A thread that writes waits, and its process
# can't be ended until the disk works again. Other threads run on: a leader with a stalled disk keeps its session, so it
# stays leader and does not answer producers whose records it should append.
@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeDisk(DiskFault):
    """The disks of the brokers stall: every write waits until the fault is healed. Proof: the kernel refuses to
    freeze each disk once more, since it is frozen."""

    kind: ClassVar[str] = "freeze-disk"
    in_words: ClassVar[str] = "every write waits: the kernel reports the file system as frozen"
    holds: ClassVar[str] = "disk frozen"
    # Requests to a leader pile up and are appended later, as after a pause, whether another broker has become leader
    # or not; a follower stops fetching. Whatever runs on without writing changes no log and acknowledges nothing.
    counts_as: ClassVar[str] = "pause"
    appearance: ClassVar[Appearance] = Appearance("#1f6f8b", "#7cc4de", Pattern.DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).freeze()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        frozen = disk_of(node).is_frozen()
        return Proof(frozen, {"frozen": frozen}, "" if frozen else "its disk takes writes")

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).thaw()


# The kernel refuses writes to the file with EPERM, even through descriptors that are open. To a broker this is the same
# as EIO from a bad block: an append that fails for any reason takes the log directory offline.
@dataclass(frozen=True, slots=True, kw_only=True)
class FailingSegment(WriteFault):
    """Writes to the newest segment of each partition fail on the brokers. With `lane`, only that lane's partitions are
    hit. The rest of the disks works. A broker whose append fails takes its log directory offline, and ends if it has
    no other. Proof: the kernel refuses writes to every one of these files."""

    lane: str | None = None
    kind: ClassVar[str] = "failing-segment"
    only_brokers: ClassVar[bool] = True
    # The broker ends without a controlled shutdown, and keeps what it had written.
    counts_as: ClassVar[str] = "kill"
    appearance: ClassVar[Appearance] = Appearance("#8a3f2b", "#dd9680", Pattern.CROSSES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk_of(node).refuse_appends(None if self.lane is None else cluster.topic(self.lane))

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        segments = disk_of(node).failing_segments()
        evidence = {"files": sorted(segments), **_broker_state(node)}
        writable = [name for name, refuses in segments.items() if not refuses]
        if not segments:
            return Proof(False, evidence, "it has no such segment")
        return Proof(not writable, evidence, f"{first_of(writable, MOST_SHOWN)} can be written to")

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Which files refused writes, and what became of the broker."""
        files = evidence["files"]
        refusals = f"writes to {counted(len(files), 'file')} refused: {first_of(files, MOST_SHOWN)}"
        return f"{refusals}; {_described_state(evidence)}"


# Brokers flush nothing before they acknowledge (`log.flush.interval.messages` is not set by default): an acknowledged
# record is lost if no other broker has it.
@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss(DiskFault):
    """The machines of the targets lose power: their processes end at once, and what was not flushed to their disks is
    gone. Proof: each process is gone, its file system was cut off from its disk and mounted again, and the bytes
    that the segments lost were counted."""

    kind: ClassVar[str] = "power-loss"
    holds: ClassVar[str] = DOWN
    counts_as: ClassVar[str] = "power-loss"
    appearance: ClassVar[Appearance] = Appearance("#8c1d40", "#ef7fa5", Pattern.CROSSES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        disk = disk_of(node)
        if disk.loss is not None and not node.is_running():
            return
        if node.is_running():
            # A broker that runs on would meet errors of its disk, and might end by itself.
            node.pause()
        disk.cut_power()
        node.kill()
        disk.power_back()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state, loss = node.state(), disk_of(node).loss
        evidence: dict[str, Any] = {key: state.get(key) for key in ("Status", "ExitCode", "FinishedAt")}
        if state["Running"]:
            return Proof(False, evidence, "the process still runs")
        if loss is None:
            return Proof(False, evidence, "its disk was not cut off")
        return Proof(True, {**evidence, **loss})

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many bytes were not flushed, and of how many files."""
        files = counted(evidence["shorter_files"], "file")
        return f"process and page cache gone: {evidence['lost_bytes']:,} bytes of {files} were not flushed"
