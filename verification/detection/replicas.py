"""Narrows replicas down to where they may differ, so that equal replicas are not compared record by record.

Guarantee: every case of `replica_divergence` is in a block that `suspects` names, unless two different contents of a
block have the same sum of 64-bit hashes.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.transactions import DATA
from kafka_chaos.verification.tables.scope import keep

BLOCK_BITS = 10
"""A block is 1,024 neighbouring offsets of a partition."""

_BLOCK = f"shiftright(offset, {BLOCK_BITS}) AS block"


def suspects(replicas: DataFrame, limits: DataFrame) -> DataFrame | None:
    """The rows of `replicas` in blocks in which two brokers do not hold the same; None if there is no such block.

    `limits`: lane, partition, limit: only offsets below the limit count.
    """
    below = replicas.join(F.broadcast(limits), ["lane", "partition"]).where("offset < limit")
    # A sum, since no order of the rows is given; it may overflow, which changes nothing about equality.
    content = f"sum(xxhash64(offset, leader_epoch, producer_id, seq, nullif(kind, '{DATA}'))) AS content"
    of_brokers = below.groupBy("lane", "partition", "broker", F.expr(_BLOCK)).agg(
        F.expr("count(1) AS n"), F.expr(content)
    )
    differing = (
        of_brokers.groupBy("lane", "partition", "block")
        .agg(F.expr("min(n) != max(n) OR min(content) != max(content) AS differs"))
        .where("differs")
        .select("lane", "partition", "block")
    )
    differing = keep(differing)
    if differing.isEmpty():
        return None
    rows = replicas.selectExpr("*", _BLOCK)
    return rows.join(F.broadcast(differing), ["lane", "partition", "block"], "left_semi").drop("block")
