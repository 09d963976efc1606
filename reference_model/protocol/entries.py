"""A log entry as one integer: the leader epoch that it was appended in, and in the lowest 8 bits its content.

The content is different in `explore/` and in `lane/`; rules look at the leader epoch alone.
"""

EPOCH_SHIFT = 8


def entry_of(content: int, leader_epoch: int) -> int:
    """The entry with this content in a leader epoch. If `content` is a whole entry, its epoch is replaced."""
    return leader_epoch << EPOCH_SHIFT | content_of(content)


def leader_epoch_of(entry: int) -> int:
    """The leader epoch that an entry was appended in."""
    return entry >> EPOCH_SHIFT


def content_of(entry: int) -> int:
    """The content of an entry."""
    return entry & (1 << EPOCH_SHIFT) - 1
