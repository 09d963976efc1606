"""A picture beside that of a lane's records, of its transactions or of a group, with what happened in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kafka_chaos.harness.report.timeline.frame import Frame

GRAVE, NOTABLE, ORDINARY = range(3)
"""The ranks of events, for where not everything fits: grave ones are left out last, ordinary ones first."""


@dataclass(frozen=True)
class Activity:
    """A picture with its heading, a sentence that sums it up, and its events in words: (when, what)."""

    heading: str
    summary: str
    picture: Markup
    events: Sequence[tuple[str, str]]
    left_out: int


EventText = tuple[int, int, str]
"""When, how grave, and what."""


def gravest(frame: Frame, events: Sequence[EventText], most: int) -> tuple[list[tuple[str, str]], int]:
    """At most so many of these events, the gravest of all, in order of time and in words; and how many are left out."""
    kept = sorted(sorted(events, key=lambda event: (event[1], event[0]))[:most])
    return [(f"{frame.at(ts_ns):+.2f} s", text) for ts_ns, _, text in kept], len(events) - len(kept)
