"""The keys of the harness's own records, and which of these are tombstones."""

VALUES_PER_KEY = 5
"""How often a producer writes a key in a partition before it goes on to others. Compaction keeps the last record of a
key only: if a key were written for ever, losses before the key's last record would look like compaction."""
_GOLDEN_RATIO = 0.6180339887498949
"""Multiples of this number, modulo 1, are spread evenly, whatever the number of keys."""


def key_of(seq: int, *, keys: int, tombstones: float, partitions: int) -> tuple[str, bool]:
    """The key of record `seq`, and whether the record is a tombstone. Each partition has `keys` keys at a time."""
    number = seq // partitions
    key = number // (keys * VALUES_PER_KEY) * keys + number % keys
    return str(key), seq * _GOLDEN_RATIO % 1 < tombstones
