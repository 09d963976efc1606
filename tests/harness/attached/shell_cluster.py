"""A cluster of files: a node is a file that holds its state, and its commands are what a shell can do to files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_chaos.harness.attached.cluster import AttachedCluster
from kafka_chaos.harness.attached.nodes_file import NodesFile, load_nodes

TEXT = """\
commands:
  state: cat {folder}/$NODE
  kill: {note}; echo down > {folder}/$NODE
  stop: {note}; echo down > {folder}/$NODE
  start: {note}; echo running > {folder}/$NODE
  pause: {note}; echo frozen > {folder}/$NODE
  thaw: {note}; echo running > {folder}/$NODE
  isolate: {note}; echo isolated > {folder}/$NODE.cut
  cut: {note}; echo "$PEERS" > {folder}/$NODE.cut
  stopped: wc -w < {folder}/$NODE.cut
  mend: {note}; rm -f {folder}/$NODE.cut
brokers:
  1: {{address: 10.0.0.1}}
  2: {{address: 10.0.0.2}}
  3: {{name: third, address: 10.0.0.3, kill: {{run: sleep 60, timeout: 0.2}}}}
zookeepers:
  1:
"""
NAMES = ("broker-1", "broker-2", "third", "zookeeper-1")


def nodes_file(folder: Path) -> Path:
    """The file of nodes of a cluster in this folder, all of which run. `ran` there lists the commands that ran."""
    for name in NAMES:
        (folder / name).write_text("running\n")
    (folder / "ran").touch()
    path = folder / "nodes.yaml"
    path.write_text(TEXT.format(folder=folder, note=f"echo $NODE $NODE_ID >> {folder}/ran"))
    return path


def cluster_of(
    folder: Path, *, allowed: Sequence[str] = NAMES, addresses: Mapping[int, str] | None = None
) -> AttachedCluster:
    """The cluster; nobody listens at its addresses."""
    file: NodesFile = load_nodes(nodes_file(folder))
    nowhere = dict.fromkeys(file.brokers, "127.0.0.1:1")
    return AttachedCluster(file, f"test-{folder.name}", "zookeeper", addresses or nowhere, {}, allowed)
