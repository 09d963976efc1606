"""manifest.json: what a run has left, file by file, so that a file that is missing, added or changed is noticed."""

import hashlib
from typing import BinaryIO

from kafka_chaos.contract.events import LaneJudged, RunEnded, Step, StepProgress, type_name

LATER_EVENTS = frozenset(map(type_name, (Step, StepProgress, LaneJudged, RunEnded)))
"""The events that a run emits once its manifest is written: none of them is evidence."""
_PIECE = 1 << 20


def sha256_of(content: BinaryIO, size: int) -> str:
    """The SHA-256, in hexadecimal, of the first `size` bytes; of all, where there are fewer."""
    digest = hashlib.sha256()
    while size > 0 and (piece := content.read(min(_PIECE, size))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()
