"""Runs hold exactly what the rows hold, at any stride and for any lane name."""

from random import Random
from typing import Any

import pytest

from kafka_chaos.verification import schemas
from kafka_chaos.verification.run_length import encoding
from kafka_chaos.verification.run_length.encoding import Packing
from kafka_chaos.verification.run_length.stride import Stride
from kafka_chaos.verification.schemas import OUTCOME_CODES
from kafka_chaos.verification.tables import evidence
from kafka_chaos.verification.tables.history import READ, SENT, STORED, local_frame

pytestmark = pytest.mark.spark

LANES = {
    "dealt": Stride(stride=3, tick=7),
    "filled": Stride(stride=1, tick=0),
    "it's a \\ lane": Stride(stride=5, tick=1),
    'a "lane" \\': Stride(stride=3, tick=7),
    "wrongly guessed": Stride(stride=64, tick=1000),
}
Rows = dict[str, list[tuple[Any, ...]]]


def random_rows(random: Random) -> Rows:
    """Rows of produced/, consumed/ and the log as the schemas have them; each at most once."""
    rows: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = {"produced": {}, "consumed": {}, "log": {}}
    for lane, stride in LANES.items():
        for seq in range(random.randrange(300)):
            producer_id, partition = random.randrange(2), seq % stride.stride
            offset = seq // stride.stride + random.choice([0, 0, 0, 0, 1, 5, -seq])
            placed = random.random() < 0.9
            outcome = random.choice(["ok", "ok", "ok", "info", "fail"])
            place = (partition, offset) if placed else (None, None)
            counted = (seq * 10, seq * 9, None, None, None)
            rows["produced"][lane, producer_id, seq] = (lane, producer_id, seq, *place, outcome, *counted)
            poll = offset * stride.tick + random.choice([0, 0, 0, 50])
            rows["consumed"][lane, seq] = (lane, random.choice("ab"), partition, offset, producer_id, seq, poll)
            rows["log"][lane, seq] = (lane, partition, offset, producer_id, seq)
    return {table: list(found.values()) for table, found in rows.items()}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_members_are_the_rows_again(spark: Any, seed: int) -> None:
    rows = random_rows(Random(seed))

    def frame(schema: Any, columns: tuple[str, ...], found: list[tuple[Any, ...]]) -> Any:
        fields = schemas.StructType([schema[name] for name in columns])
        return local_frame(spark, fields, found)

    order = ("lane", "producer_id", "seq", "partition", "offset", "outcome", "complete_ns", "invoke_ns")
    produced = frame(schemas.PRODUCED, (*order, "transaction", *evidence.SOURCE), rows["produced"])
    order = ("lane", "consumer", "partition", "offset", "producer_id", "seq", "poll_ns")
    consumed = frame(schemas.CONSUMED, order, rows["consumed"])
    log = frame(schemas.LOG, ("lane", "partition", "offset", "producer_id", "seq"), rows["log"])
    packed = Packing(LANES, encoding.lanes_frame(spark, LANES)).tables(produced, consumed, log).localCheckpoint()
    again = encoding.members(packed)
    place = ("lane", "partition", "offset", "producer_id", "seq")

    def members(source: int, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(
            (tuple(row) for row in again.where(f"source = {source}").selectExpr(*columns).collect()), key=repr
        )

    sent = [(*row[:5], OUTCOME_CODES[row[5]]) for row in rows["produced"]]
    assert members(SENT, "lane", "producer_id", "seq", "partition", "offset", "outcome") == sorted(sent, key=repr)
    assert members(STORED, *place) == sorted(rows["log"], key=repr)
    read = [(lane, *rest, poll) for lane, _, *rest, poll in rows["consumed"]]
    assert members(READ, *place, "start + tick * offset") == sorted(read, key=repr)
    assert sum(row.n for row in packed.where(f"source = {STORED}").collect()) == len(rows["log"])
    pieces = encoding.pieces(packed.where(f"source = {STORED}")).collect()
    assert sum(piece.last - piece["first"] + 1 for piece in pieces) == len(rows["log"])
