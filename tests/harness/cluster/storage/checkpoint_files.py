"""Checkpoint files as Kafka writes them."""

from collections.abc import Sequence

from kafka_chaos.harness.cluster.storage.files import VERSION


def format_offsets(offsets: dict[tuple[str, int], int]) -> str:
    """The text that `parse_offsets` reads back."""
    return _format([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def format_leader_epochs(chain: Sequence[tuple[int, int]]) -> str:
    """The text that `parse_leader_epochs` reads back."""
    return _format([f"{epoch} {start}" for epoch, start in chain])


def _format(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines))
