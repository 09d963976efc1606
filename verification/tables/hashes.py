"""Hashes by which tables and names are compared, with a salt that nobody knows who wrote the tables.

Guarantee: two contents with equal hashes occur by chance only (64 bits), never by choice: the salt is drawn by each
process that verifies.
"""

from __future__ import annotations

import secrets

from kafka_chaos.verification.inputs.file_systems.storage import RunPath, write_text

_drawn = {"salt": secrets.randbits(63)}


def hashed(*columns: str) -> str:
    """The hash of these columns, as a column."""
    return f"xxhash64({_drawn['salt']}L, {', '.join(columns)})"


def lane_key() -> str:
    """The lane as a whole number, a cheaper grouping key than its name."""
    return f"{hashed('lane')} AS lane_key"


def keep_salt(path: RunPath) -> None:
    """Go on with the salt of this file; write it if there is none."""
    if path.exists():
        _drawn["salt"] = int(path.read_text("utf-8"))
    else:
        write_text(path, str(_drawn["salt"]))
