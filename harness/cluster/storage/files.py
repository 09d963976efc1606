"""Reads files of a broker's data directory from its container, which may run, be paused or be stopped.

All files come in one transfer, and none is held in memory as a whole. If the broker writes meanwhile, each file shows
its content at some moment of the transfer. Index files are left out if the broker runs. From a paused or stopped
container, the engine only sends whole folders, with index files (`log.index.size.max.bytes` keeps them small).

Checkpoint files are read strictly: a line that Kafka would not write is refused with the file's name and the line's
number. An empty file is valid: Kafka fills it at the first checkpoint. Format: a version (0), the number of entries,
then one entry per line (org.apache.kafka.server.common.CheckpointFile).
"""

import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError
from kafka_chaos.harness.cluster.containers.engine import Pipe, docker_client
from kafka_chaos.harness.cluster.node import Node

_EXCLUDE = " ".join(f"'--exclude=*.{ending}'" for ending in ("index", "timeindex", "txnindex", "snapshot", "deleted"))
_TAR = f'cd "$1" && shift && exec tar --sort=name --ignore-failed-read -cf - {_EXCLUDE} -- "$@"'
"""A script for `sh -c`: its first argument is the folder, the others are the paths to pack."""
# GNU tar ends with 1 if a file changed or vanished while it was read, as files of a running broker do.
_ACCEPTED_CODES = (0, 1)
HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
BROKER_FILES = (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS)
"""The checkpoint files that a broker has once for all replicas; they are beside the replicas' folders."""

VERSION = 0  # the only version of the format of checkpoint files


def stream_files(
    node: Node, folder: str, paths: Iterable[str], *, wanted: re.Pattern[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    """The files at or below `paths`, relative to the container's `folder`, whose relative path fully matches `wanted`.

    Each file comes with its path and a stream that can be read until the next file is asked for. The files of a folder
    are in the order of their names. Paths that don't exist are left out. Raises `ClusterFailure` if reading fails.
    """
    roots = tuple(paths)
    if not roots:
        # The broker has no replica of these topics; tar makes no empty archive.
        return
    state = node.state()
    serving = state["Running"] and not state["Paused"]
    pieces = _from_inside(node, folder, roots) if serving else node.container.get_archive(folder, chunk_size=1 << 20)[0]
    with tarfile.open(fileobj=Pipe(pieces), mode="r|") as archive:
        for member in archive:
            # In an archive that the engine makes, names begin with the folder's own name.
            name = member.name.removeprefix("./") if serving else member.name.partition("/")[2]
            is_below_a_root = any(root in (".", name) or name.startswith(f"{root}/") for root in roots)
            if member.isfile() and wanted.fullmatch(name) and is_below_a_root:
                content = archive.extractfile(member)
                assert content is not None
                yield name, content
        # Read to the end: the rest would stay in the connection, and the exit code would be unknown.
        for _ in pieces:
            pass


def _from_inside(node: Node, folder: str, paths: tuple[str, ...]) -> Iterator[bytes]:
    # An SDK client that `docker_client` did not make may lose the first bytes of an answer (`engine.py`).
    api = docker_client().api
    command = ["sh", "-c", _TAR, "tar", folder, *paths]
    execution = api.exec_create(node.container.id, command)["Id"]
    errors = b""
    for output, error in api.exec_start(execution, stream=True, demux=True):
        errors = (errors + (error or b""))[-2000:]
        if output:
            yield output
    code = api.exec_inspect(execution)["ExitCode"]
    if code not in _ACCEPTED_CODES:
        text = errors.decode(errors="replace").strip()
        raise ClusterFailure(f"{node.name}: reading {folder} ended with {code}: {text}")


class CheckpointError(KafkaChaosError):
    """Raised for a checkpoint file that Kafka would not have written; the message names file and line."""


def parse_offsets(file: str, text: str) -> dict[tuple[str, int], int]:
    """The offsets in lines of the form `topic partition offset`, by (topic, partition)."""
    offsets: dict[tuple[str, int], int] = {}
    for number, fields in _entries(file, text, "topic partition offset"):
        topic, partition = fields[0], _whole_number(file, number, "partition", fields[1])
        if (topic, partition) in offsets:
            raise CheckpointError(f"{file}, line {number}: {topic}-{partition} occurs twice")
        offsets[topic, partition] = _whole_number(file, number, "offset", fields[2])
    return offsets


def parse_checkpoints(broker: str, contents: Mapping[str, bytes]) -> dict[str, dict[tuple[str, int], int]]:
    """The offsets in each checkpoint file of a broker, by (topic, partition); none in a file that is missing."""
    texts = {name: contents.get(name, b"").decode(errors="replace") for name in BROKER_FILES}
    return {name: parse_offsets(f"{broker}:{name}", text) for name, text in texts.items()}


def parse_leader_epochs(file: str, text: str) -> tuple[tuple[int, int], ...]:
    """The pairs in lines of the form `epoch start-offset`, oldest first."""
    chain: list[tuple[int, int]] = []
    for number, fields in _entries(file, text, "epoch start-offset"):
        epoch = _whole_number(file, number, "epoch", fields[0])
        start = _whole_number(file, number, "start-offset", fields[1])
        if chain and (epoch <= chain[-1][0] or start < chain[-1][1]):
            raise CheckpointError(
                f"{file}, line {number}: epoch {epoch} from {start} on is older than "
                f"the line before, epoch {chain[-1][0]} from {chain[-1][1]} on"
            )
        chain.append((epoch, start))
    return tuple(chain)


def _entries(file: str, text: str, form: str) -> list[tuple[int, list[str]]]:
    """The entries, each as its line number and its fields, as many as `form` has words."""
    if not text:
        return []
    # `splitlines` would also break at characters that Kafka doesn't take for an end of line.
    lines = text.removesuffix("\n").split("\n")
    version = _whole_number(file, 1, "version", lines[0])
    if version != VERSION:
        raise CheckpointError(f"{file}, line 1: version {version}, expected {VERSION}")
    if len(lines) < 2:
        raise CheckpointError(f"{file}, line 2: missing, expected the number of entries")
    count = _whole_number(file, 2, "number of entries", lines[1])
    if len(lines) - 2 != count:
        raise CheckpointError(f"{file}, line 2: {count} entries announced, {len(lines) - 2} lines follow")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        fields = line.split(" ")
        if len(fields) != len(form.split()) or not all(fields):
            raise CheckpointError(f"{file}, line {number}: {line!r}, expected '{form}'")
        entries.append((number, fields))
    return entries


def _whole_number(file: str, line: int, field: str, text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()) or int(text) < 0:
        raise CheckpointError(f"{file}, line {line}: {field} is {text!r}, expected a whole number of 0 or more")
    return int(text)
