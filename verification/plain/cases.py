"""What the plain checker finds: cases, and what findings/ says of each."""

from __future__ import annotations

from typing import NamedTuple

from kafka_chaos.verification.plain.rows import Identity, Place


class Case(NamedTuple):
    """A row of findings/ without its cause: the anomaly, and the record or place that it names."""

    anomaly: str
    partition: int | None
    offset: int | None
    producer_id: int | None
    seq: int | None


class Finding(NamedTuple):
    """A case, its cause, and how many counted units it stands for."""

    case: Case
    cause: str | None = None
    units: int = 1


def named(
    anomaly: str, place: Place | None, identity: Identity | None, cause: str | None = None, units: int = 1
) -> Finding:
    """A finding at this place, of this record."""
    return Finding(Case(anomaly, *(place or (None, None)), *(identity or (None, None))), cause, units)


def case_order(case: Case) -> tuple[object, ...]:
    """A sort key for cases; a missing value comes first."""
    return tuple((value is not None, value) for value in case)
