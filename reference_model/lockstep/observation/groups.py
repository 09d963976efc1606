"""Observations of a consumer group between two steps, and their differences from the model.

Members are numbered from 1, 0 is nobody. Partitions are numbered from 0; where a value is given by partition, they are
in that order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOBODY = 0

GIVEN, PROCESSED, COMMITTED, REFUSED = "given", "processed", "committed", "refused"

Deed = tuple[str, int, int]
"""A member's step, its partition, and the offset of the record or of the commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberObservation:
    """One member, as it sees itself. `did`: in order.

    `generation`: 0 where it is in none; with the protocol `consumer`, its epoch. It and `has`, the partitions, are None
    where they were not observed.
    """

    generation: int | None = None
    has: tuple[int, ...] | None = None
    did: tuple[Deed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservation:
    """A group: who is in it and who has which partition, by its coordinator; what is committed; and its members.

    None was not observed, and matches anything.
    """

    members: tuple[int, ...] | None = None
    owners: tuple[int, ...] | None = None
    committed: tuple[int, ...] | None = None
    each: Mapping[int, MemberObservation] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Everything that was observed, by the name that a difference gives it."""
        found: dict[str, Any] = {"members": self.members, "owners": self.owners, "committed": self.committed}
        for number, member in self.each.items():
            found[f"member {number}, generation"] = member.generation
            found[f"member {number}, has"] = member.has
            found[f"member {number}, did"] = member.did
        return {name: value for name, value in found.items() if value is not None}
