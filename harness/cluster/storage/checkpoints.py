"""A broker's checkpoint files: one number per partition, and the chain of leader epochs of one partition.

Read strictly: a line that is not as Kafka writes it is refused with the file and the number of the line. An empty file
holds nothing: Kafka makes the files empty and fills them at the first checkpoint. Format: a version (0), the number
of entries, then one entry per line (org.apache.kafka.server.common.CheckpointFile).
"""

from __future__ import annotations

from kafka_chaos.contract.errors import KafkaChaosError

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

VERSION = 0


class CheckpointError(KafkaChaosError):
    """A checkpoint file that Kafka would not have written; the message names file and line."""


def parse_offsets(file: str, text: str) -> dict[tuple[str, int], int]:
    """`topic partition offset` lines as (topic, partition) → offset."""
    found: dict[tuple[str, int], int] = {}
    for number, fields in _entries(file, text, "topic partition offset"):
        place = (fields[0], _whole(file, number, "partition", fields[1], at_least=0))
        if place in found:
            raise CheckpointError(f"{file}, line {number}: {place[0]}-{place[1]} occurs twice")
        found[place] = _whole(file, number, "offset", fields[2], at_least=0)
    return found


def parse_leader_epochs(file: str, text: str) -> tuple[tuple[int, int], ...]:
    """`epoch start-offset` lines as (leader epoch, start offset), oldest first."""
    chain: list[tuple[int, int]] = []
    for number, fields in _entries(file, text, "epoch start-offset"):
        entry = (
            _whole(file, number, "epoch", fields[0], at_least=0),
            _whole(file, number, "start-offset", fields[1], at_least=0),
        )
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
    version = _whole(file, 1, "version", lines[0], at_least=0)
    if version != VERSION:
        raise CheckpointError(f"{file}, line 1: version {version}, expected {VERSION}")
    if len(lines) < 2:
        raise CheckpointError(f"{file}, line 2: missing, expected the number of entries")
    count = _whole(file, 2, "number of entries", lines[1], at_least=0)
    if len(lines) - 2 != count:
        raise CheckpointError(f"{file}, line 2: {count} entries announced, {len(lines) - 2} lines follow")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        fields = line.split(" ")
        if len(fields) != len(form.split()) or not all(fields):
            raise CheckpointError(f"{file}, line {number}: {line!r}, expected '{form}'")
        entries.append((number, fields))
    return entries


def _whole(file: str, line: int, what: str, text: str, *, at_least: int) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()) or int(text) < at_least:
        raise CheckpointError(f"{file}, line {line}: {what} is {text!r}, expected a whole number of {at_least} or more")
    return int(text)
