"""Files of a broker's data directory, from its container in one transfer, whether it serves, is paused or is stopped.

No file is held whole unless the caller does. What is read while the broker writes shows each file as it was at some
moment of the transfer, and different files at different moments. Index files don't travel from a running container;
a stopped one's come along, since the engine knows only whole folders (`log.index.size.max.bytes` keeps them small).
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING

from kafka_chaos.harness.cluster.containers.engine import Pipe, docker_client
from kafka_chaos.harness.errors import ClusterFailure

if TYPE_CHECKING:
    from kafka_chaos.harness.cluster.node import Node

_EXCLUDED = tuple(f"--exclude=*.{ending}" for ending in ("index", "timeindex", "txnindex", "snapshot", "deleted"))
_TAR = 'cd "$1" && shift && exec tar --ignore-failed-read -cf - ' + " ".join(f"'{x}'" for x in _EXCLUDED) + ' -- "$@"'
# GNU tar ends with 1 where a file changed or vanished while it was read, as a serving broker's files do.
_FINE = (0, 1)


def stream_files(
    node: Node, folder: str, paths: Iterable[str], *, wanted: re.Pattern[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    """The files at or below `paths` of the container's `folder` whose path in it fully matches `wanted`.

    Each comes with an open stream, good until the next file is asked for. Paths that don't exist are passed over.
    Raises `ClusterFailure` where the container can't be read.
    """
    asked = tuple(paths)
    if not asked:
        # A broker that holds no replica of these topics; tar makes no empty archive.
        return
    state = node.state()
    serving = state["Running"] and not state["Paused"]
    pieces = _from_inside(node, folder, asked) if serving else _from_engine(node, folder)
    with tarfile.open(fileobj=Pipe(pieces), mode="r|") as archive:
        for member in archive:
            # The engine's names begin with the folder's own.
            name = member.name.removeprefix("./") if serving else member.name.partition("/")[2]
            if member.isfile() and wanted.fullmatch(name) and _is_at(name, asked):
                content = archive.extractfile(member)
                assert content is not None
                yield name, content
        # What is left unread would stay in the connection, and the exit code unknown.
        for _ in pieces:
            pass


def _is_at(name: str, paths: tuple[str, ...]) -> bool:
    return any(path == "." or name == path or name.startswith(f"{path}/") for path in paths)


def _from_engine(node: Node, folder: str) -> Iterator[bytes]:
    pieces, _ = node.container.get_archive(folder, chunk_size=1 << 20)
    yield from pieces


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
