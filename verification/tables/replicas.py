"""Replicas by blocks of offsets: one pass over replicas/ counts its facts and tells where brokers hold the same.

Guarantee: two brokers that hold different rows of a block differ in its sums, unless two different contents of a block
have the same number of rows and the same sum of 64-bit hashes.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.transactions import ABORT, COMMIT, DATA, RECORD_KINDS
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.tables.evidence import Frames, is_large, is_small
from kafka_chaos.verification.tables.hashes import hashed
from kafka_chaos.verification.tables.history import gathered
from kafka_chaos.verification.tables.scope import keep

DIFFER = "min(n) != max(n) OR min(content) != max(content)"
"""Whether brokers differ, of the sums of one block."""
_KEYS = ("lane", "partition", "block")
_KIND = f"nullif(kind, '{DATA}')"
_KINDS = ", ".join(f"'{kind}'" for kind in RECORD_KINDS)


def summed(run: RunDirectory, frames: Frames) -> Frames:
    """The tables, with what is known of `replicas` by blocks, and with the markers in it."""
    if frames.replicas is None:
        return frames
    small = is_small(run)
    sums = keep(gathered(block_sums(frames.replicas), small=small), small=small)
    found = markers(frames.replicas, None if small else sums)
    if frames.transactions is not None:
        found = keep(found, small=small, large=is_large(run))
    return replace(frames, replica_sums=sums, markers=found)


def block_sums(replicas: DataFrame) -> DataFrame:
    """REPLICAS to one row per lane, partition, broker and block.

    `n`: its rows; `content`: the sum of their hashes; `first` and `last` offset; `kinds`: rows that tell their kind,
    `markers`: those that are markers, `bad`: those of an unknown kind.
    """
    columns = {
        "n": "count(1)",
        # A sum, since no order of the rows is given; it may overflow, which changes nothing about equality.
        "content": f"sum({hashed('offset', 'leader_epoch', 'producer_id', 'seq', _KIND)})",
        "first": "min(offset)",
        "last": "max(offset)",
        "kinds": "count(kind)",
        "markers": f"count_if(kind IN ('{COMMIT}', '{ABORT}'))",
        "bad": f"count_if(kind NOT IN ({_KINDS}))",
    }
    rows = replicas.selectExpr("*", blocks.block_of())
    return rows.groupBy("lane", "partition", "broker", "block").agg(
        *(F.expr(f"{text} AS {name}") for name, text in columns.items())
    )


def suspects(replicas: DataFrame, sums: DataFrame, limits: DataFrame) -> DataFrame | None:
    """The rows of `replicas` in blocks in which two brokers may differ below their limit; None if there are none.

    `limits`: lane, partition, limit: only offsets below the limit count. A block on both sides of it is in doubt.
    """
    below = sums.join(F.broadcast(limits), ["lane", "partition"]).where("first < limit")
    compared = below.groupBy(*_KEYS).agg(F.expr(f"max(last >= limit) OR {DIFFER} AS differs"))
    differing = keep(compared.where("differs").select(*_KEYS))
    return None if differing.isEmpty() else blocks.within(replicas, differing, ("lane", "partition"))


def markers(replicas: DataFrame, sums: DataFrame | None) -> DataFrame:
    """The markers that end transactions: POSITION, producer_id, kind.

    With `sums`, where all brokers hold the same, the markers of one of them.
    """
    rows = replicas.where(F.col("kind").isin(COMMIT, ABORT))
    if sums is not None:
        placed = rows.selectExpr("*", blocks.block_of()).join(F.broadcast(_lowest(sums)), list(_KEYS))
        rows = placed.where(_COUNTS)
    return rows.select(*POSITION, "producer_id", "kind")


_COUNTS = "differs OR broker = lowest"
"""Whether the markers of a broker count, joined with `_lowest`."""


def _lowest(sums: DataFrame) -> DataFrame:
    """By block the lowest broker, and whether brokers differ."""
    return sums.groupBy(*_KEYS).agg(F.expr("min(broker) AS lowest"), F.expr(f"{DIFFER} AS differs"))
