"""Files that are taken from a broker's log directories: by the real scripts, from a folder like a broker's."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafka_chaos.faults.fault import Fault, build
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster, FakeNode

CHECKPOINTS = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
FOLDERS = ("topic-of-orders-0", "topic-of-orders-1", "topic-of-orders-too-0", "__consumer_offsets-0")
OTHERS = ("__cluster_metadata-0", "topic-of-orders-0.3f-delete")


@dataclass
class NodeOnThisMachine(FakeNode):
    """Its commands run here, and only while its process is there; a suspended one is noted."""

    was_suspended: list[bool] = field(default_factory=list)

    def execute(self, *command: str) -> tuple[int, str]:
        assert self.running
        self.was_suspended.append(self.suspended)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        return Path(path).read_bytes()[offset : offset + length]

    def file_size(self, path: str) -> int | None:
        return Path(path).stat().st_size if Path(path).exists() else None


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with two segments in each partition, of 50 and 300 bytes."""
    data = tmp_path / "data"
    for folder in (*FOLDERS, *OTHERS):
        (data / folder).mkdir(parents=True)
        for segment, size in ((0, 50), (7, 300)):
            for ending in ("log", "index", "timeindex", "txnindex"):
                (data / folder / f"{segment:020}.{ending}").write_bytes(b"x" * size)
        (data / folder / "leader-epoch-checkpoint").write_text("0\n0\n")
        (data / folder / "partition.metadata").write_text("version: 0\n")
    for name in (*CHECKPOINTS, "meta.properties"):
        (data / name).write_text("0\n0\n")
    return data


@pytest.fixture
def cluster(data: Path) -> FakeCluster:
    node = NodeOnThisMachine("broker-1", 1)
    return FakeCluster(brokers={1: node}, log_directories=(str(data), str(data) + "-2"))


def files(data: Path) -> dict[str, int]:
    return {str(path.relative_to(data)): path.stat().st_size for path in data.rglob("*") if path.is_file()}


def fault_of(kind: str, **keys: object) -> Fault:
    return build(fault_kinds()[kind], target=Target.parse("broker:1"), at=1, duration=1, keys=keys)


def hit(cluster: FakeCluster, kind: str, **keys: object) -> tuple[Fault, dict[str, tuple[int, int | None]]]:
    """Injected, twice; what the proof tells of each file."""
    fault, nodes = fault_of(kind, **keys), (cluster.brokers[1],)
    assert fault.proof(cluster, nodes).reason == "broker-1: the process still runs"
    fault.inject(cluster, nodes)
    fault.inject(cluster, nodes)
    assert cluster.brokers[1].was_suspended == [True]
    proof = fault.proof(cluster, nodes)
    assert proof.took_effect, proof.reason
    return fault, proof.evidence["broker-1"]["files"]


def test_all_checkpoints_are_lost_and_nothing_else(cluster: FakeCluster, data: Path) -> None:
    before = files(data)
    fault, told = hit(cluster, "lost-checkpoint")
    lost = {*CHECKPOINTS, *(f"{folder}/leader-epoch-checkpoint" for folder in FOLDERS)}
    assert set(before) - set(files(data)) == lost
    assert told == {str(data / name): (4, None) for name in lost}
    assert fault.describe_evidence({"files": told}).startswith("28 bytes of 7 files gone: ")


def test_indexes_are_lost_and_nothing_else(cluster: FakeCluster, data: Path) -> None:
    before = files(data)
    hit(cluster, "lost-index")
    lost = set(before) - set(files(data))
    assert {name.rpartition(".")[2] for name in lost} == {"index", "timeindex"}
    assert {name.partition("/")[0] for name in lost} == set(FOLDERS)
    assert len(lost) == 4 * len(FOLDERS)


@pytest.mark.parametrize(("cut", "left"), [(100, 200), (300, 0), (10_000, 0)])
def test_the_newest_segment_is_cut_and_nothing_else(cut: int, left: int, cluster: FakeCluster, data: Path) -> None:
    before = files(data)
    fault, told = hit(cluster, "truncated-segment", bytes=cut)
    after = files(data)
    changed = {name: after[name] for name, size in before.items() if after[name] != size}
    assert changed == {f"{folder}/{7:020}.log": left for folder in FOLDERS}
    assert set(told.values()) == {(300, left)}
    assert f"{4 * (300 - left):,} bytes of 4 files gone" in fault.describe_evidence({"files": told})


@pytest.mark.parametrize(("before_end", "place"), [(100, 200), (16, 284), (10_000, 0)])
def test_the_newest_segment_is_overwritten_and_keeps_its_size(
    before_end: int, place: int, cluster: FakeCluster, data: Path
) -> None:
    before = files(data)
    fault, told = hit(cluster, "corrupted-segment", lane="orders", bytes=before_end)
    assert files(data) == before
    newest = [data / folder / f"{7:020}.log" for folder in FOLDERS[:2]]
    assert told == {str(path): place for path in newest}
    for path in data.rglob("*.log"):
        other = {index for index, byte in enumerate(path.read_bytes()) if byte != ord("x")}
        assert other == (set(range(place, place + 16)) if path in newest else set())
    assert fault.describe_evidence({"files": told}).startswith("bytes of 2 files overwritten: ")
    newest[0].write_bytes(b"x" * 300)
    assert fault.proof(cluster, (cluster.brokers[1],)).reason == f"broker-1: not overwritten: {newest[0]}"


def test_files_that_are_back_are_no_proof(cluster: FakeCluster, data: Path) -> None:
    fault, told = hit(cluster, "lost-index", lane="orders")
    Path(min(told)).write_bytes(b"")
    assert fault.proof(cluster, (cluster.brokers[1],)).reason == f"broker-1: not changed as expected: {min(told)}"


def test_a_broker_that_was_down_or_had_no_such_files_is_no_proof(cluster: FakeCluster) -> None:
    node = cluster.brokers[1]
    fault = fault_of("lost-index", lane="nothing")
    fault.inject(cluster, (node,))
    assert not node.running
    reason = "broker-1: it had no file to change, or had ended before the fault"
    assert fault.proof(cluster, (node,)).reason == reason
    other = fault_of("lost-index")
    other.inject(cluster, (node,))
    assert other.proof(cluster, (node,)).reason == reason
    fault.heal(cluster, (node,))
    assert node.running
