"""The log of a tiered partition is asked of its leader, batch by batch, up to the high watermark."""

from pathlib import Path
from typing import Self

import pytest

from kafka_chaos.harness.cluster.broker.client import NONE, FetchAnswer
from kafka_chaos.harness.cluster.remote_store import reading
from kafka_chaos.harness.cluster.remote_store.reading import fetch_tiered
from kafka_chaos.harness.cluster.storage.collect import LeaderEnd
from kafka_chaos.harness.cluster.storage.segments import read_segment
from tests.harness.cluster.storage.test_collect import log

PLACE = ("orders", 0)
FAILS = 56


class Leader:
    """Gives out one batch at a time, from the one that holds the offset on, and cuts the next one short."""

    address = "127.0.0.1:9094"

    def __init__(self, batches: dict[int, bytes], errors: dict[int, int]) -> None:
        self.batches, self.errors = batches, errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def fetch(self, topic: str, partition: int, *, offset: int) -> FetchAnswer:
        found = b"".join(data for first, data in self.batches.items() if first + 2 >= offset)
        # The end is asked for once more after an error.
        error = self.errors.pop(offset, NONE) if offset == 15 else self.errors.get(offset, NONE)
        return FetchAnswer(error, 15, 3, b"" if error else found[: (len(found) + len(log([0]))) // 2])


def fetched(tmp_path: Path, errors: dict[int, int]) -> tuple[list[int], list[str]]:
    batches = {first: log([0], first=first) for first in (3, 6, 9, 12)}
    said: list[str] = []
    connect = lambda broker: Leader(batches, errors)  # noqa: E731
    files = fetch_tiered(connect, {PLACE: LeaderEnd(1, 15)}, tmp_path, said.append)  # type: ignore[arg-type,return-value]
    assert files[PLACE].name == f"{3:020d}.log"
    found = read_segment(str(files[PLACE]), files[PLACE].read_bytes())
    assert found.torn is None
    return [batch.base_offset for batch in found.batches], said


@pytest.mark.parametrize("errors", [{}, {15: FAILS}])
def test_all_is_fetched_once(tmp_path: Path, errors: dict[int, int]) -> None:
    assert fetched(tmp_path, errors) == ([3, 6, 9, 12], [])


def test_what_the_leader_does_not_return_is_missing_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_SECONDS", 0.0)
    offsets, (said,) = fetched(tmp_path, dict.fromkeys(range(9, 15), FAILS))
    assert offsets == [3, 6]
    assert "to return orders-0 from offset 9 on" in said
    assert "it answers KAFKA_STORAGE_ERROR: what follows counts as missing from the log" in said
