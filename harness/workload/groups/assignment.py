"""A member's assignment: its partitions, under a name that a rebalance or a seek changes."""

import struct
import time
from collections.abc import Callable, Iterable
from typing import Any

Tell = Callable[..., None]
"""Tells the harness one thing: its kind, and its values by name."""

_MAGIC = b"CGMDv2:"
_GENERATION = struct.Struct("=i")


def generation_of(metadata: object) -> int | None:
    """The generation in a consumer's group metadata as librdkafka writes it (with KIP-848, the member's epoch)."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_MAGIC):
        return None
    generation = int(_GENERATION.unpack_from(metadata, len(_MAGIC))[0])
    return generation if generation >= 0 else None


class Assignment:
    """The partitions of one member. `tell` learns when they were given and taken."""

    def __init__(self, name: str, client: Any, tell: Tell) -> None:
        self.name = f"{name}-0"
        self.begun_ns = 0
        self._member = name
        self._client = client
        self._tell = tell
        self._numbers = 0
        self._held: set[int] = set()

    @property
    def held(self) -> frozenset[int]:
        """The partitions that it has."""
        return frozenset(self._held)

    def given(self, partitions: Iterable[int]) -> None:
        """A rebalance gave it these, and let it keep what it had: all are held under a new name."""
        kept = sorted(self._held)
        self._held.update(partitions)
        self._begin(kept)

    def taken(self, partitions: Iterable[int]) -> None:
        """A rebalance takes these."""
        gone = self._held & set(partitions)
        self._end(sorted(gone), time.monotonic_ns())
        self._held -= gone

    def sought(self) -> None:
        """The position was set back: what it reads again has a new name."""
        self._begin(sorted(self._held))

    def _begin(self, ended: list[int]) -> None:
        self.begun_ns = time.monotonic_ns()
        self._end(ended, self.begun_ns)
        self._numbers += 1
        self.name = f"{self._member}-{self._numbers}"
        if self._held:
            self._tell(
                "assigned",
                consumer=self.name,
                member=self._client.memberid() or self._member,
                generation=generation_of(self._client.consumer_group_metadata()),
                partitions=sorted(self._held),
                ns=self.begun_ns,
            )

    def _end(self, partitions: list[int], ns: int) -> None:
        if partitions:
            self._tell("given_back", consumer=self.name, partitions=partitions, ns=ns)
