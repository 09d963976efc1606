"""Files of a broker's data directory, from its container in one transfer, whether it serves, is paused or is stopped.

No file is held whole unless the caller does. What is read while the broker writes shows each file as it was at some
moment of the transfer, and different files at different moments. Index files don't travel from a running container;
a stopped one's come along, since the engine knows only whole folders (`log.index.size.max.bytes` keeps them small).

Checkpoint files are read strictly: a line that is not as Kafka writes it is refused with the file and the number of the
line. An empty file holds nothing: Kafka makes the files empty and fills them at the first checkpoint. Format: a version
(0), the number of entries, then one per line (org.apache.kafka.server.common.CheckpointFile).
"""

import re
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO

from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError
from kafka_chaos.harness.cluster.containers.engine import Pipe, docker_client
from kafka_chaos.harness.cluster.node import Node

_EXCLUDED = tuple(f"--exclude=*.{ending}" for ending in ("index", "timeindex", "txnindex", "snapshot", "deleted"))
_TAR = (
    'cd "$1" && shift && exec tar --sort=name --ignore-failed-read -cf - '
    + " ".join(f"'{x}'" for x in _EXCLUDED)
    + ' -- "$@"'
)
# GNU tar ends with 1 where a file changed or vanished while it was read, as a serving broker's files do.
_FINE = (0, 1)


def stream_files(
    node: Node, folder: str, paths: Iterable[str], *, wanted: re.Pattern[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    """The files at or below `paths` of the container's `folder` whose path in it fully matches `wanted`.

    Each comes with an open stream, good until the next file is asked for; those of a folder in the order of their
    names. Paths that don't exist are passed over. Raises `ClusterFailure` where the container can't be read.
    """
    asked = tuple(paths)
    if not asked:
        # A broker that holds no replica of these topics; tar makes no empty archive.
        return
    state = node.state()
    serving = state["Running"] and not state["Paused"]
    pieces = _from_inside(node, folder, asked) if serving else node.container.get_archive(folder, chunk_size=1 << 20)[0]
    with tarfile.open(fileobj=Pipe(pieces), mode="r|") as archive:
        for member in archive:
            # The engine's names begin with the folder's own.
            name = member.name.removeprefix("./") if serving else member.name.partition("/")[2]
            is_asked = any(path in (".", name) or name.startswith(f"{path}/") for path in asked)
            if member.isfile() and wanted.fullmatch(name) and is_asked:
                content = archive.extractfile(member)
                assert content is not None
                yield name, content
        # What is left unread would stay in the connection, and the exit code unknown.
        for _ in pieces:
            pass


def _from_inside(node: Node, folder: str, paths: tuple[str, ...]) -> Iterator[bytes]:
    # This client reads whole answers, the container's own does not.
    api = docker_client().api
    command = ["sh", "-c", _TAR, "tar", folder, *paths]
    execution = api.exec_create(node.container.id, command)["Id"]
    complaints = b""
    for output, complaint in api.exec_start(execution, stream=True, demux=True):
        complaints = (complaints + (complaint or b""))[-2000:]
        if output:
            yield output
    code = api.exec_inspect(execution)["ExitCode"]
    if code not in _FINE:
        text = complaints.decode(errors="replace").strip()
        raise ClusterFailure(f"{node.name}: reading {folder} ended with {code}: {text}")


HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
BROKER_FILES = (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS)
"""The checkpoints of a broker, beside the folders of its replicas."""

VERSION = 0


class CheckpointError(KafkaChaosError):
    """A checkpoint file that Kafka would not have written; the message names file and line."""


def parse_offsets(file: str, text: str) -> dict[tuple[str, int], int]:
    """`topic partition offset` lines as (topic, partition) → offset."""
    found: dict[tuple[str, int], int] = {}
    for number, fields in _entries(file, text, "topic partition offset"):
        place = (fields[0], _whole(file, number, "partition", fields[1]))
        if place in found:
            raise CheckpointError(f"{file}, line {number}: {place[0]}-{place[1]} occurs twice")
        found[place] = _whole(file, number, "offset", fields[2])
    return found


def parse_leader_epochs(file: str, text: str) -> tuple[tuple[int, int], ...]:
    """`epoch start-offset` lines as (leader epoch, start offset), oldest first."""
    chain: list[tuple[int, int]] = []
    for number, fields in _entries(file, text, "epoch start-offset"):
        entry = (_whole(file, number, "epoch", fields[0]), _whole(file, number, "start-offset", fields[1]))
        if chain and (entry[0] <= chain[-1][0] or entry[1] < chain[-1][1]):
            raise CheckpointError(
                f"{file}, line {number}: epoch {entry[0]} from {entry[1]} on is older than "
                f"the line before, epoch {chain[-1][0]} from {chain[-1][1]} on"
            )
        chain.append(entry)
    return tuple(chain)


def _entries(file: str, text: str, form: str) -> list[tuple[int, list[str]]]:
    """The entries with the numbers of their lines, each with as many fields as `form` has."""
    if not text:
        return []
    # Not splitlines: that breaks also at characters that Kafka doesn't take for an end of line.
    lines = text.removesuffix("\n").split("\n")
    version = _whole(file, 1, "version", lines[0])
    if version != VERSION:
        raise CheckpointError(f"{file}, line 1: version {version}, expected {VERSION}")
    if len(lines) < 2:
        raise CheckpointError(f"{file}, line 2: missing, expected the number of entries")
    count = _whole(file, 2, "number of entries", lines[1])
    if len(lines) - 2 != count:
        raise CheckpointError(f"{file}, line 2: {count} entries announced, {len(lines) - 2} lines follow")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        fields = line.split(" ")
        if len(fields) != len(form.split()) or not all(fields):
            raise CheckpointError(f"{file}, line {number}: {line!r}, expected '{form}'")
        entries.append((number, fields))
    return entries


def _whole(file: str, line: int, what: str, text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()) or int(text) < 0:
        raise CheckpointError(f"{file}, line {line}: {what} is {text!r}, expected a whole number of 0 or more")
    return int(text)
