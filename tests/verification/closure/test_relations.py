"""Each table's references resolve in the others: in a clean run, and with each relation broken."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.columns import TABLES, arrow_schema
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.verification import verify
from kafka_chaos.verification.closure.resolve import resolved, unresolved
from kafka_chaos.verification.engines import documents
from kafka_chaos.verification.engines.duckdb_engine import DuckDb
from kafka_chaos.verification.engines.engine import SqlEngine
from kafka_chaos.verification.engines.spark_engine import Spark
from kafka_chaos.verification.inputs.run_directory import RunDirectory, open_run
from kafka_chaos.verification.lacks import Doubt
from kafka_chaos.verification.spark.tuning import tuned
from kafka_chaos.verification.statements.library import RELATIONS, statements
from tests.night import a_third_by_day
from tests.verification.oracle.rows import Assigned, Produced, Read, Replicated, Transaction
from tests.verification.samples.planted_groups import Histories, clean, owned_twice
from tests.verification.samples.run_dirs import Rows, write_json
from tests.verification.shares.test_anomalies import UNRESOLVED

GROUP = "in-group"


def doubts_of(folder: Path) -> Mapping[str, Sequence[Doubt]]:
    """By lane what does not resolve in a run directory."""
    run = open_run(folder)
    return resolved(run, by_duckdb(run)).doubts


def by_duckdb(run: RunDirectory) -> list[tuple[str, Doubt]]:
    with DuckDb(run) as engine:
        return found_by(engine, run)


def found_by(engine: SqlEngine, run: RunDirectory) -> list[tuple[str, Doubt]]:
    engine.read()
    for name, table in documents.tables(run).items():
        engine.add(name, table)
    return unresolved(engine, run)


def changed(table: str, lane: str, at: int = 0, **values: Any) -> Callable[[Histories], None]:
    def change(run: Histories) -> None:
        rows = getattr(run.lanes[lane], table)
        rows[at] = rows[at]._replace(**values)

    return change


def added(table: str, lane: str, row: Any) -> Callable[[Histories], None]:
    return lambda run: getattr(run.lanes[lane], table).append(row)


def read_within(producer_id: int | None, transaction: int, **values: Any) -> Callable[[Histories], None]:
    return changed("consumed", "once", reading_producer_id=producer_id, reading_transaction=transaction, **values)


def second_incarnation(run: Histories) -> None:
    once = run.lanes["once"]
    once.transactions.append(Transaction(8, 0, "once-0", run.clock, run.clock + 9, "aborted"))
    once.transactions[:] = [row._replace(initialised_ns=None) for row in once.transactions]


def without_assignment(run: Histories) -> None:
    rows = run.lanes["in"].assignments
    rows.append(rows[0]._replace(partition=1, consumer="k"))
    run.lanes["in"].consumed.append(Read("k", 0, 0, 0, 0, run.clock))


def without_consumer(run: Histories) -> None:
    lane = run.lanes["in"]
    gone = next(row.consumer for row in lane.assignments if row.group == GROUP)
    lane.assignments[:] = [row for row in lane.assignments if row.consumer != gone]
    lane.consumed += [row._replace(consumer="stranger") for row in lane.consumed if row.consumer == gone]


def a_log_that_was_cut(run: Histories) -> None:
    log = run.lanes["once"].log
    assert log is not None
    del log[1]


def twice(run: Histories) -> None:
    """In the place of another one, so that there are as many rows as offsets."""
    rows = run.lanes["once"].replicas
    first, second, *_ = (at for at, row in enumerate(rows) if row.broker == rows[0].broker and row.partition == 0)
    rows[second] = rows[first]


def reads_of_one_dropped(run: Histories) -> None:
    rows = run.lanes["in"].consumed
    rows[:] = [row for row in rows if row.consumer != f"{GROUP}-1-0"]


def in_the_end(offset: int) -> Callable[[Histories], None]:
    return lambda run: run.final[GROUP].update({0: offset})


def refused_in_a_transaction(run: Histories) -> None:
    rows = run.lanes["exact"].commits
    last = rows[-1]
    rows[:] = [
        row._replace(outcome="fail")
        if (row.producer_id, row.transaction, row.partition) == (last.producer_id, last.transaction, last.partition)
        else row
        for row in rows
    ]


def assigned_twice(run: Histories) -> None:
    rows = run.lanes["in"].assignments
    last = [row for row in rows if row.group == GROUP][-1]
    rows.append(last._replace(consumer="x"))


def reads_at_one_time(run: Histories) -> None:
    rows = run.lanes["in"].consumed
    first = rows[0]
    at = next(
        at for at, row in enumerate(rows[1:], 1) if (row.consumer, row.partition) == (first.consumer, first.partition)
    )
    rows[at] = rows[at]._replace(poll_ns=first.poll_ns)


def second_owner(**hidden: Any) -> Callable[[Histories], None]:
    """Of a partition, in the same generation; `hidden`: what its assignment says instead."""

    def change(run: Histories) -> None:
        planted = owned_twice()[0]
        run.lanes["in"] = planted.lanes["in"]
        rows = run.lanes["in"].assignments
        rows[-1] = rows[-1]._replace(**hidden)

    return change


def without_a_partition(run: Histories) -> None:
    """Whatever a group has to do with it is hidden."""
    history, reads = run.lanes["in"], {row.consumer for row in run.lanes["in"].assignments if row.group == GROUP}
    history.assignments[:] = [row for row in history.assignments if (row.group, row.partition) != (GROUP, 1)]
    history.consumed[:] = [row for row in history.consumed if row.consumer not in reads or row.partition != 1]
    history.commits[:] = [row for row in history.commits if (row.group, row.partition) != (GROUP, 1)]
    del run.final[GROUP][1]


MARKER = Replicated(0, 1, 0, 0, 7, -1, "commit")
STRAY = added("replicas", "once", MARKER._replace(producer_id=9))
ENDED = Transaction(7, 0, "id", 1, 2, "aborted")
WITHIN = "read within a transaction"
OF_NO_GROUP = "assignments: of no group, though it may be a member's"
ANOTHER_S = Assigned(f"{GROUP}-1-0", 1, "read_committed", GROUP, "x", 1, 1)
OUTSIDE = Produced(7, 99, 0, None, "info", None, 5000, None, 0, 0)
BROKEN: dict[str, tuple[Callable[[Histories], None], str, str]] = {
    "no end": (changed("transactions", "once", end_ns=None), "once", "committed, without a time"),
    "asked elsewhen": (changed("transactions", "once", commit_ns=1), "once", "or its commit asked for outside of it"),
    "not initialised": (second_incarnation, "once", "without the time at which its producer was initialised"),
    "initialised late": (
        changed("transactions", "once", initialised_ns=10**9),
        "once",
        "begun before its producer was",
    ),
    "ended early": (changed("transactions", "once", end_ns=2), "once", "or ended before it began"),
    "overlapping": (changed("transactions", "once", begin_ns=1, at=1), "once", "begun before the one before it"),
    "two ids": (changed("transactions", "once", transactional_id="u"), "once", "under several transactional ids"),
    "third id": (
        added("transactions", "once", ENDED._replace(producer_id=8)),
        "once",
        "of more transactional ids than",
    ),
    "no lane of transactions": (added("transactions", "out", ENDED), "out", "of a lane without transactions"),
    "sent early": (changed("produced", "once", invoke_ns=1), "once", "sent before its transaction began"),
    "sent late": (changed("produced", "once", invoke_ns=10**12), "once", "or after it ended"),
    "backwards": (changed("produced", "once", complete_ns=1), "once", "answered before it was sent"),
    "outside": (added("produced", "once", OUTSIDE), "once", "in no transaction, though the lane has them"),
    "inside": (changed("produced", "out", transaction=3), "out", "in a transaction, though the lane has none"),
    "made of": (changed("produced", "in", source_producer_id=0, source_seq=0), "in", "though the lane is no loop's"),
    "half an input": (changed("produced", "in", source_producer_id=0), "in", "though the lane is no loop's"),
    "some untimed": (changed("produced", "in", complete_ns=None), "in", "acknowledged without a time, beside others"),
    "refuted": (changed("produced", "in", outcome="fail"), "in", "certainly not written, at an offset"),
    "orphan": (changed("produced", "out", source_seq=77), "out", "made of an input that nobody produced"),
    "made too early": (changed("produced", "out", invoke_ns=5), "out", "made of an input that nobody produced, or not"),
    "not read": (changed("produced", "out", invoke_ns=5), "out", "made of an input that its loop had not read"),
    "marker before": (STRAY, "once", "a marker of a producer without a record before it"),
    "unknown marker": (STRAY, "once", "a marker of a producer that transactions/ does not name"),
    "marker in a plain lane": (added("replicas", "in", MARKER._replace(offset=99)), "in", "though the lane has no tr"),
    "no epoch": (changed("replicas", "once", producer_epoch=-1), "once", "or without them, though it is"),
    "repeated": (twice, "once", "an offset twice"),
    "epoch": (changed("replicas", "once", leader_epoch=9), "once", "a leader epoch before an earlier one"),
    "read before": (changed("consumed", "in", poll_ns=1), "in", "read before it was sent"),
    "at one time": (reads_at_one_time, "in", "several at one time by one consumer"),
    "read within half a transaction": (read_within(None, 0), "once", f"{WITHIN} whose producer or number is missing"),
    "read within no transaction": (read_within(7, 99), "once", f"{WITHIN} that transactions/ lacks"),
    "read after the transaction": (read_within(7, 0, poll_ns=10**12), "once", f"{WITHIN}, before it began or after it"),
    "cut log": (a_log_that_was_cut, "once", "no replica holds just what the log holds"),
    "other log": (changed("log", "once", at=1, seq=99), "once", "no replica holds just what the log holds"),
    "not assigned": (without_assignment, "in", "by a consumer that was not assigned the partition"),
    "no consumer": (without_consumer, "in", "that assignments/ lacks, beside another one"),
    "read early": (changed("assignments", "in", start_ns=10**12), "in", "before the consumer was assigned"),
    "two members": (added("assignments", "in", ANOTHER_S), "in", "of one consumer to several members"),
    "generation -1": (changed("assignments", "in", generation=-1), "in", "a generation below 0, or before an earlier"),
    "unread": (reads_of_one_dropped, "in", "commits: of an offset that its consumer had not read up to"),
    "still assigned": (assigned_twice, "in", "of one partition to a member that still has it"),
    "two levels": (changed("assignments", "in", isolation="read_uncommitted"), "in", "with several isolation levels"),
    "an owner of no group": (second_owner(group=None), "in", OF_NO_GROUP),
    "a member of no group": (second_owner(group=None, generation=None, member="m1"), "in", OF_NO_GROUP),
    "a second reader of no group": (second_owner(group=None, generation=None), "in", OF_NO_GROUP),
    "no evidence in a partition": (without_a_partition, "in", "consumed: nothing by a group, of a partition in which"),
    "stray group": (changed("assignments", "in", group="x"), "in", "of a group that no lane has"),
    "two groups": (changed("assignments", "in", member="loop-m1"), "in", "of one member to several groups"),
    "commit of another": (changed("commits", "in", consumer="x"), "in", "commits: by a consumer that was not assigned"),
    "stray commit": (changed("commits", "in", group="x"), "in", "commits: of a group that no lane has"),
    "commit without time": (changed("commits", "in", complete_ns=None), "in", "acknowledged, without a time"),
    "refused commit": (refused_in_a_transaction, "once", "refused, though its transaction was committed"),
    "commit of a producer": (changed("commits", "in", producer_id=7), "in", "in a transaction though the group uses"),
    "commit answered late": (changed("commits", "exact", complete_ns=10**9), "once", "or not while it was open"),
    "commit past the log": (changed("commits", "in", offset=10**6), "in", "commits: past the end of the log"),
    "commit in a transaction": (changed("commits", "in", transaction=0, producer_id=7), "in", "group uses none"),
    "commit in none": (changed("commits", "exact", transaction=None), "once", "or in none though it does"),
    "commit in another": (changed("commits", "exact", transaction=99), "once", "that transactions/ lacks"),
    "commit too early": (changed("commits", "exact", invoke_ns=500), "once", "or not while it was open"),
    "end that nobody committed": (in_the_end(5), "in", "a committed offset that no member committed"),
    "end past the log": (in_the_end(7), "in", "groups.json: a committed offset"),
}


def plain_run() -> Rows:
    """A lane without transactions, groups and loops, with a phase and a fault in it."""
    rows = Rows(lanes=[{"lane": "a", "faults": ["kill"]}]).event("phase_started", phase="p", lanes=["a"])
    for offset in range(5):
        rows.all(offset, offset)
        for broker in (1, 2, 3):
            rows.replica(broker, offset, offset)
    rows.event("fault_requested", fault_id="kill-1", kind="kill", resolved=["broker-1"], lanes=["a"])
    rows.event("fault_proven", fault_id="kill-1", evidence={"broker-1": {}})
    rows.event("fault_healed", fault_id="kill-1")
    return rows.event("phase_ended", phase="p")


def later(rows: Rows, *types: str) -> None:
    for event in rows.events or ():
        if event["type"].startswith(types):
            event["ts_ns"] += 10**12


def read_in(epoch: int) -> Callable[[Rows], None]:
    return lambda rows: rows.consumed[1].update(leader_epoch=epoch)


def checkpoints(**of_broker: int | list[list[int]] | None) -> Callable[[Rows], None]:
    """Those of `plain_run`; of broker 1, these values."""

    def change(rows: Rows) -> None:
        entry = {"high_watermark": 5, "log_end_offset": 5, "log_start_offset": 0, "leader_epochs": [[0, 0]]}
        rows.checkpoints = {"brokers": {str(broker): {"a/0": entry} for broker in (2, 3)}}
        rows.checkpoints["brokers"]["1"] = {"a/0": {**entry, **of_broker}}

    return change


def reported(epoch: int, mark: int) -> Callable[[Rows], None]:
    """A high watermark of a leader epoch."""
    told = {"lane": "a", "partition": 0, "broker": 1, "leader_epoch": epoch, "high_watermark": mark}
    return lambda rows: rows.event("high_watermark", **told) and None


def without_its_beginning(rows: Rows) -> None:
    checkpoints()(rows)
    rows.lanes[0]["cleanup_policy"] = "delete"
    (rows.log or []).pop(0)


def found_elsewhere(rows: Rows) -> None:
    rows.lanes[0]["partitions"] = 2
    rows.produced[2].update(partition=1, offset=None, outcome="info")


def in_a_later_term(rows: Rows) -> None:
    checkpoints()(rows)
    reported(4, 3)(rows)


def elected(**values: Any) -> Callable[[Rows], None]:
    """The election of `plain_run`'s leader, with these values."""

    def change(rows: Rows) -> None:
        checkpoints()(rows)
        won = {"lane": "a", "partition": 0, "broker": 1, "leader_epoch": 0, "start_offset": 0, "isr": [1, 2, 3]}
        rows.event("leader_elected", **{**won, **values})

    return change


def elected_again(rows: Rows) -> None:
    """In the same leader epoch, of which checkpoints keep the first start."""
    elected()(rows)
    elected(start_offset=3)(rows)


def back_with_less(rows: Rows) -> None:
    """A leader that came back before anybody noticed began its epoch again, with what was left of its log."""
    elected(leader_epoch=1, start_offset=5)(rows)
    elected(leader_epoch=1, start_offset=2)(rows)
    checkpoints(leader_epochs=[[0, 0], [1, 5]])(rows)


def late(*types: str) -> Callable[[Rows], None]:
    return lambda rows: later(rows, *types)


def with_epochs(*epochs: int, idempotent: bool) -> Callable[[Rows], None]:
    """The producer epochs of the records, from the first one on."""

    def change(rows: Rows) -> None:
        rows.lanes[0]["idempotence"] = idempotent
        for replica in rows.replicas or ():
            replica["producer_epoch"] = epochs[min(replica["offset"], len(epochs) - 1)]

    return change


def with_one_epoch(at: int, epoch: int | None) -> Callable[[Rows], None]:
    """All producer epochs are 0 but that of the replicas' row `at`."""

    def change(rows: Rows) -> None:
        with_epochs(0, idempotent=True)(rows)
        (rows.replicas or [])[at]["producer_epoch"] = epoch

    return change


def with_chain(before: Callable[[Rows], None], chain: list[list[int]]) -> Callable[[Rows], None]:
    """After the change `before`, these leader epochs of every broker."""

    def change(rows: Rows) -> None:
        before(rows)
        for entries in (rows.checkpoints or {})["brokers"].values():
            entries["a/0"] = {**entries["a/0"], "leader_epochs": chain}

    return change


def without_the_last(rows: Rows) -> None:
    """Nobody tells of the last record but for the replicas."""
    for table in (rows.produced, rows.consumed, rows.log or []):
        table.pop()


WITH_ERRORS = {"transactions": "committed, with an error", "commits": "acknowledged, with an error"}
PLANNED_BROKEN: dict[str, tuple[Callable[[Rows], None], str]] = {
    "late end": (late("fault_healed"), "a fault proven or healed after its phase had ended"),
    "late proof": (late("fault_proven", "fault_healed"), "a fault proven or healed after its phase had ended"),
    "late answer": (lambda rows: rows.produced[0].update(complete_ns=10**12), "answered after its phase had ended"),
    "read late": (lambda rows: rows.consumed[-1].update(poll_ns=10**12), "or after its phase had ended"),
    "sent before the run": (lambda rows: rows.event("run_started", run_id="r") and None, "sent before the run began"),
    "missing": (lambda rows: rows.produced[3].update(seq=9), "without numbers of a producer that come before others"),
    "epoch past the end": (checkpoints(leader_epochs=[[0, 0], [1, 9]]), "a leader epoch past the end of the log"),
    "epoch of nobody": (with_chain(elected(), [[0, 0], [1, 4]]), "or in which nobody led or wrote"),
    "no epochs": (with_chain(checkpoints(), []), "without the leader epochs of records in replicas/"),
    "no end": (checkpoints(log_end_offset=None), "a high watermark past the log end offset"),
}
"""Where there is an experiment.yaml."""


PLAIN_CLEAN: dict[str, Callable[[Rows], None]] = {
    "as it is": lambda rows: None,
    "with checkpoints": checkpoints(),
    "not idempotent": with_epochs(-1, idempotent=False),
    "idempotent": with_epochs(0, 0, 1, idempotent=True),
    "another producer id": with_epochs(32766, 0, idempotent=True),
    "elected": elected(),
    "elected twice in one epoch": elected_again,
    "back in its epoch with less": back_with_less,
    "nobody knows when": lambda rows: [row.update(complete_ns=None) for row in rows.produced] and None,
}
PLAIN_BROKEN: dict[str, tuple[Callable[[Rows], None], str]] = {
    "cut": (without_the_last, "no replica holds just what the log holds"),
    "mark past the end": (checkpoints(high_watermark=5, log_end_offset=4), "a high watermark past the log end offset"),
    "other end": (checkpoints(log_end_offset=8), "or another end than the replica's"),
    "other chain": (checkpoints(leader_epochs=[[3, 0]]), "a leader epoch that checkpoints.json does not have"),
    "later chain": (checkpoints(leader_epochs=[[0, 2], [1, 5]]), "or with records before that epoch"),
    "no beginning": (without_its_beginning, "log: begins past the first offset that every broker has"),
    "elsewhere": (found_elsewhere, "in the log, or read, in another partition than it was sent to"),
    "later term": (in_a_later_term, "a high watermark of a leader epoch that checkpoints.json does not have"),
    "unexpected epochs": (with_epochs(-1, 0, idempotent=False), "with producer epochs, though the lane is not"),
    "no epochs": (with_epochs(0, -1, idempotent=True), "or without them, though it is"),
    "another election": (elected(start_offset=3), "a leader epoch that begins elsewhere by another broker, or by its"),
    "another start": (checkpoints(leader_epochs=[[0, 1]]), "a leader epoch that begins elsewhere by another broker"),
    "elected by too many": (elected(isr=[1, 2, 3, 4]), "of more members than the partition has replicas"),
    "mark past the log": (reported(0, 6), "a high watermark past the end of the log"),
    "read past the log": (lambda rows: rows.consumed[-1].update(offset=9), "read past the end of the log"),
    "read in an earlier epoch": (read_in(-1), "read with a leader epoch that no replica has"),
    "negative": (lambda rows: rows.produced[-1].update(seq=-4), "a number below 0"),
    "blamed": (lambda rows: rows.produced[-1].update(error="no"), "produced: acknowledged, with an error"),
    "epochs that fall": (with_epochs(1, 0, idempotent=True), "a producer epoch that is missing beside others, falls"),
    "an epoch that is missing": (with_one_epoch(0, None), "a producer epoch that is missing beside others"),
    "epochs that differ": (with_one_epoch(-1, 1), "falls, or differs between brokers"),
    "elected from outside": (elected(isr=[2, 3]), "a leader elected that is not in its ISR"),
    "late fault": (lambda rows: later(rows, "fault"), "a fault requested outside of its phase"),
    "late record": (lambda rows: rows.produced[0].update(invoke_ns=10**9), "sent after its phase had ended"),
    "late phase": (lambda rows: later(rows, "phase", "fault"), "a phase in which none of the lane's records was sent"),
    "later epoch": (read_in(1), "read with a leader epoch that no replica has"),
}


def broken_together(folder: Path) -> Path:
    run = clean()
    for name, (change, _, _) in BROKEN.items():
        if name not in ("outside", "other log", "two members", "no evidence in a partition") and "no group" not in name:
            change(run)
    return run.write(folder)


def plain_broken_together(folder: Path) -> Path:
    rows = plain_run()
    for name, (change, _) in {**PLAIN_BROKEN, **PLANNED_BROKEN}.items():
        if name not in ("late phase", "cut", "no beginning"):
            change(rows)
    folder = rows.write(folder)
    (folder / "experiment.yaml").write_text("phases: [{phase: p, lanes: [{lane: a}], schedule: [{fault: kill}]}]")
    return folder


BROKEN_TOGETHER = {"groups and transactions": broken_together, "a plain lane": plain_broken_together}


def test_a_clean_run_has_no_doubt(tmp_path: Path) -> None:
    assert doubts_of(clean().write(tmp_path / "run")) == {}


@pytest.mark.parametrize(
    ("after_ns", "doubts"), [(1, []), (0, ["read by a consumer of the group's lane that assignments/"])]
)
def test_a_consumer_that_follows_another_one_is_its_next_life(tmp_path: Path, after_ns: int, doubts: list[str]) -> None:
    run = clean()
    rows = [row for row in run.lanes["in"].consumed if not row.consumer.startswith(GROUP)]
    last = max(rows, key=lambda row: row.poll_ns)
    run.lanes["in"].consumed.append(last._replace(consumer="next", poll_ns=last.poll_ns + after_ns))
    found = [doubt.text for doubt in doubts_of(run.write(tmp_path / "run")).get("in", ())]
    assert [any(wanted in text for text in found) for wanted in doubts] == [True] * len(found)


@pytest.mark.parametrize(("lane", "problem"), [("in", "assignments/ lacks, beside another"), ("once", OF_NO_GROUP)])
def test_consumers_that_come_and_go_read_beside_a_group(tmp_path: Path, lane: str, problem: str) -> None:
    run = clean()
    run.keys = {"once": {**run.clients["once"], "group": {"members": 1}}}
    rows = run.lanes[lane]
    rows.consumed += [row._replace(consumer="guest") for row in rows.consumed if row.consumer.startswith("follower")]
    rows.assignments += [Assigned("guest", at, "read_uncommitted", member="g") for at in range(2) if lane == "once"]
    folder = run.write(tmp_path / "run")
    assert any(problem in doubt.text for doubt in doubts_of(folder)[lane])
    write_json(folder / "events.jsonl", {"ts_ns": 1, "type": "reader_started", "lane": lane, "consumer": "guest"})
    assert not any(problem in doubt.text for doubt in doubts_of(folder).get(lane, ()))


@pytest.mark.parametrize("name", PLAIN_CLEAN)
def test_a_clean_run_with_plain_lanes_has_no_doubt(tmp_path: Path, name: str) -> None:
    rows = plain_run()
    PLAIN_CLEAN[name](rows)
    assert doubts_of(rows.write(tmp_path / "run")) == {}


@pytest.mark.parametrize("name", a_third_by_day(PLAIN_BROKEN))
def test_plain_lanes_have_doubts_too(tmp_path: Path, name: str) -> None:
    change, problem = PLAIN_BROKEN[name]
    rows = plain_run()
    change(rows)
    doubts = doubts_of(rows.write(tmp_path / "run"))
    assert any(problem in doubt.text for doubt in doubts["a"]), doubts


@pytest.mark.parametrize("name", a_third_by_day(BROKEN))
def test_what_does_not_resolve_is_a_doubt_that_names_it(tmp_path: Path, name: str) -> None:
    change, lane, problem = BROKEN[name]
    run = clean()
    change(run)
    doubts = doubts_of(run.write(tmp_path / "run"))
    assert any(problem in doubt.text for doubt in doubts[lane]), doubts


@pytest.mark.parametrize("name", a_third_by_day([None, *PLANNED_BROKEN]))
def test_a_run_of_this_project_says_more(tmp_path: Path, name: str | None) -> None:
    rows, problem = plain_run(), None
    if name is not None:
        change, problem = PLANNED_BROKEN[name]
        change(rows)
    folder = rows.write(tmp_path / "run")
    without = [doubt.text for doubt in doubts_of(folder).get("a", ())]
    (folder / "experiment.yaml").write_text("phases: [{phase: p, lanes: [{lane: a}], schedule: [{fault: kill}]}]")
    doubts = [doubt.text for doubt in doubts_of(folder).get("a", ())]
    more = [doubt for doubt in doubts if doubt not in without]
    assert more == [] if problem is None else any(problem in doubt for doubt in more)


@pytest.mark.parametrize(
    ("chain", "cleanup_policy", "is_doubtful"),
    [
        ([[3, 4]], "delete", False),
        ([[3, 4]], None, True),
        ([[0, 2], [1, 6]], "delete", False),
        ([[0, 0], [3, 5]], "delete", True),
    ],
    ids=["forgotten", "nothing is removed", "begins later", "missing between others"],
)
def test_leader_epochs_that_retention_made_a_broker_forget_are_no_doubt(
    tmp_path: Path, chain: list[list[int]], cleanup_policy: str | None, is_doubtful: bool
) -> None:
    rows = plain_run()
    rows.lanes[0]["cleanup_policy"] = cleanup_policy
    (with_chain(checkpoints(), chain) if chain[-1][1] == 5 else checkpoints(leader_epochs=chain))(rows)
    if chain[-1][1] == 5:
        for row in rows.replicas or ():
            row["leader_epoch"] = 2 if row["offset"] == 4 else row["leader_epoch"]
    doubts = doubts_of(rows.write(tmp_path / "run")).get("a", ())
    problem = "a leader epoch that checkpoints.json does not have"
    assert any(problem in doubt.text for doubt in doubts) is is_doubtful, doubts


def test_two_lanes_of_one_topic_have_a_doubt(tmp_path: Path) -> None:
    rows = Rows(lanes=[{"lane": "a"}, {"lane": "b", "topic": "a"}, {"lane": "c"}]).all(0, 0)
    doubts = doubts_of(rows.write(tmp_path / "run"))
    assert {lane: [doubt.text for doubt in found] for lane, found in doubts.items()} == {
        lane: ["lanes.json: topic a is that of another lane, too"] for lane in "ab"
    }


@pytest.mark.parametrize(("table", "problem"), WITH_ERRORS.items())
def test_what_succeeded_has_no_error(tmp_path: Path, table: str, problem: str) -> None:
    folder = clean().write(tmp_path / "run")
    for file in (folder / table).glob("*.parquet"):
        rows = pa.Table.from_pylist(pq.ParquetFile(file).read().to_pylist(), arrow_schema(TABLES[table]))
        errors = pa.array(["fenced"] * len(rows), pa.string())
        pq.write_table(rows.set_column(rows.schema.get_field_index("error"), "error", errors), file)
    doubts = doubts_of(folder).values()
    assert any(problem in doubt.text for of_lane in doubts for doubt in of_lane), doubts


def test_every_relation_is_broken_by_some_case() -> None:
    relations = statements(RELATIONS).values()
    for text in (f"{relation.of}: {problem}" for relation in relations for problem, _ in relation.problems):
        problems = [
            *WITH_ERRORS.values(),
            *(case[-1] for case in PLANNED_BROKEN.values()),
            *(case[-1] for case in BROKEN.values()),
            *(case[-1] for case in PLAIN_BROKEN.values()),
            *(case[-1] for case in UNRESOLVED.values()),
        ]
        assert any(problem in text for problem in problems), text


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("change", BROKEN_TOGETHER)
def test_spark_finds_the_same(tmp_path: Path, spark: Any, change: str) -> None:
    opened = open_run(BROKEN_TOGETHER[change](tmp_path / "run"))
    expected = by_duckdb(opened)
    assert len(expected) >= 18
    with tuned(spark, opened.rows, local=True), Spark(opened, spark) as engine:
        assert found_by(engine, opened) == expected


@pytest.mark.usefixtures("everything_forbidden")
@pytest.mark.parametrize("name", ["an owner of no group", "a second reader of no group", "no evidence in a partition"])
def test_what_a_group_hides_is_unknown(tmp_path: Path, name: str) -> None:
    run = clean()
    BROKEN[name][0](run)
    lane = verify(run.write(tmp_path / "run"), engine="duckdb").lane("in")
    assert lane.verdict == Verdict.UNKNOWN
    assert GroupAnomaly.OWNED_TWICE in lane.not_judged


@pytest.mark.usefixtures("everything_forbidden")
def test_a_lane_with_a_doubt_is_unknown_for_what_rests_on_it(tmp_path: Path) -> None:
    run = clean()
    BROKEN["no end"][0](run)
    BROKEN["commit without time"][0](run)
    verdict = verify(run.write(tmp_path / "run"), engine="duckdb")
    assert verdict.verdict == Verdict.UNKNOWN
    assert TransactionAnomaly.ZOMBIE_COMMIT in verdict.lane("once").not_judged
    assert GroupAnomaly.COMMIT_LOST in verdict.lane("in").not_judged
    assert any("committed, without a time" in reason for reason in verdict.lane("once").reasons)
