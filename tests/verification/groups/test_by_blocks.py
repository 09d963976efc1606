"""The log and the records that groups processed are compared by blocks: both checkers agree on damaged lanes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generated_histories import (
    GroupShape,
    LaneShape,
    LaneTables,
    TransactionsShape,
    lane_tables,
    transaction_tables,
    with_group,
    write_run,
)
from generated_histories.groups import FIRST_CONSUMER

from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, READ_UNCOMMITTED, TransactionAnomaly
from kafka_chaos.verification.agreement.pieces import WORD_BITS
from kafka_chaos.verification.tables import blocks, evidence
from kafka_chaos.verification.tables.scope import Method
from tests.verification.oracle.rows import Case
from tests.verification.samples.engines import verified_by_both
from tests.verification.samples.run_dirs import read_cases

pytestmark = pytest.mark.spark

SHAPE = GroupShape(commit_every=20)
Damage = Callable[[LaneTables, np.random.Generator], None]


def of_members(tables: LaneTables) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The rows of consumed/ that members read."""
    return np.flatnonzero(tables.consumed["consumer"] >= FIRST_CONSUMER)


def skipped(tables: LaneTables, random: np.random.Generator) -> None:
    """Members are not given some records."""
    left_out = random.choice(of_members(tables), 5, replace=False)
    tables.consumed = {name: np.delete(values, left_out) for name, values in tables.consumed.items()}


def given_twice(tables: LaneTables, random: np.random.Generator) -> None:
    """Members are given some records again."""
    again = random.choice(of_members(tables), 5, replace=False)
    tables.consumed = {name: np.append(values, values[again]) for name, values in tables.consumed.items()}


def one_instead_of_another(tables: LaneTables, random: np.random.Generator) -> None:
    """Members are given as many records as there are, but some twice, and their neighbours not at all."""
    for row in random.choice(of_members(tables)[:-1], 5, replace=False):
        for name, values in tables.consumed.items():
            values[row] = values[row + 1] if name != "poll_ns" else values[row]


def another_record_there(tables: LaneTables, random: np.random.Generator) -> None:
    """Members are given other records at some offsets than the log has there."""
    for row in random.choice(of_members(tables), 3, replace=False):
        tables.consumed["seq"][row] = tables.consumed["seq"][row - 1]


def begun_late(tables: LaneTables, _: np.random.Generator) -> None:
    """Partition 0 has no member at first, and the group commits behind its end."""
    late = [row for row in of_members(tables) if not tables.consumed["partition"][row]][:7]
    tables.consumed = {name: np.delete(values, late) for name, values in tables.consumed.items()}
    tables.committed[0] -= 9


def given_everything(tables: LaneTables, _: np.random.Generator) -> None:
    """Members are given what is not committed, too."""
    everything = np.full(tables.others["assignments"]["member"].size, ISOLATION_LEVELS.index(READ_UNCOMMITTED))
    is_member = tables.others["assignments"]["consumer"] >= FIRST_CONSUMER
    tables.others["assignments"]["isolation"][is_member] = everything[is_member]


def nothing(_: LaneTables, __: np.random.Generator) -> None:
    """The lane stays as it is."""


DAMAGES = (nothing, skipped, given_twice, one_instead_of_another, another_record_there, begun_late, given_everything)


def made(lane: str, damage: Damage, *, transactional: bool, seed: int) -> LaneTables:
    if transactional:
        shape = TransactionsShape(
            lane=lane, transactions=120, size=7, partitions=2, producers=3, abort=0.2, entangled=0.2
        )
        tables = with_group(transaction_tables(shape, seed), SHAPE)
    else:
        tables = with_group(
            lane_tables(LaneShape(lane=lane, records=600, partitions=2, batch=7, replicas=3), seed), SHAPE
        )
    damage(tables, np.random.default_rng(seed))
    return tables


def both(
    folder: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, lanes: list[LaneTables], method: Method | None
) -> dict[str, list[Case]]:
    """The cases in all lanes, on which Spark and the oracle agree."""
    monkeypatch.setattr(evidence, "SMALL", 100)
    monkeypatch.setattr(evidence, "LARGE", 200)
    monkeypatch.setattr(blocks, "BLOCK_BITS", WORD_BITS)
    run_dir = write_run(folder, lanes)
    verdict = verified_by_both(run_dir, spark=spark, method=method)
    assert not any(lane.not_judged.keys() & set(GroupAnomaly) for lane in verdict.lanes)
    return read_cases(run_dir)


@pytest.mark.slow
def test_what_members_did_not_process_is_found_by_blocks(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = [
        made(f"{damage.__name__}-{transactional}", damage, transactional=transactional, seed=number)
        for number, damage in enumerate(DAMAGES)
        for transactional in (False, True)
    ]
    found = both(tmp_path / "run", spark, monkeypatch, lanes, Method.BLOCKS)
    counts = {
        lane: sum(case.anomaly == GroupAnomaly.SKIPPED_AFTER_REBALANCE for case in cases)
        for lane, cases in found.items()
    }
    loud = ("skipped", "one_instead_of_another")
    assert all(counts[f"{damage}-{transactional}"] for damage in loud for transactional in (False, True))
    # These name records by where they were acknowledged, which comes from blocks, too.
    assert any(case.anomaly == TransactionAnomaly.DEPENDENCY_CYCLE for case in found["skipped-True"])
    quiet = ("nothing", "given_twice", "another_record_there", "given_everything")
    assert not any(count for lane, count in counts.items() if lane.startswith(quiet))
