"""Known defects in a verdict: which findings they explain, on what evidence, and what accepting them changes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.contract.run_directory import EXPERIMENT_FILE
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS
from kafka_chaos.verification.cli import verify_command
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory, open_run
from kafka_chaos.verification.inputs.tables import Table, read_tables
from kafka_chaos.verification.judging import known_defects
from kafka_chaos.verification.judging.defect_evidence import (
    Recorded,
    Sent,
    committed_without,
    ended_late,
    renewed_epoch,
)
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.known_defects import recorded_of
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts
from tests.commands import ended
from tests.verification.samples.partitions import FULL
from tests.verification.samples.run_dirs import Rows

DEFECT = "librdkafka-4953"
LATE = "KAFKA-17754"
LANE = Lane(lane="a", idempotence=True)


def precondition(defect: str, occurred_ns: int, producer_id: int | None = None, **values: Any) -> DefectPrecondition:
    """The event as the verification keeps it: its time is that at which it occurred."""
    met = {"ts_ns": occurred_ns, "defect": defect, "lane": "a", "evidence": "seen", "producer_id": producer_id}
    return DefectPrecondition(**met, **values)


MET = {"a": (precondition(DEFECT, 1500, 0),)}
PREDICTION = LanePrediction(
    dict.fromkeys(Anomaly, Status.FORBIDDEN), "model", (), "digest", {Anomaly.DUPLICATE: ((DEFECT,),)}
)
FOUND = "duplicate is forbidden and was found: 1"
RECORD = (0, 7)
TWICE = Observation(1, records=(RECORD,))


def copies(*epochs: int | None, brokers: tuple[int, ...] = (1, 2), seq: int = 7) -> Rows:
    """A record of producer 0 that was in doubt from 1,000 to 2,000 ns, once in the log for each producer epoch."""
    rows = Rows(lanes=[{"lane": "a", "idempotence": True}], clock=0).send(seq, 10)
    rows.produced[0]["complete_ns"] = 2000
    for offset, epoch in enumerate(epochs, 10):
        rows.store(offset, seq)
        for broker in brokers:
            rows.replica(broker, offset, seq, producer_epoch=epoch)
    return rows


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copies(0, 1).write(tmp_path_factory.mktemp("run"))


def verdict_of(
    run_dir: Path,
    preconditions: Mapping[str, Sequence[DefectPrecondition]] = MET,
    *,
    prediction: LanePrediction = PREDICTION,
    facts: PartitionFacts = FULL,
    unplaced: int = 0,
    **observed: Observation,
) -> LaneVerdict:
    tables = {**read_tables(run_dir), "replicas": Table(files=read_tables(run_dir)["replicas"].files)}
    run = RunDirectory(run_dir, (LANE,), tables, Events((), preconditions=preconditions, unplaced={"a": unplaced}))
    seen = {Anomaly(name): one for name, one in (observed or {"duplicate": TWICE}).items()}
    return judge(LaneEvidence(run, LANE, LaneFacts({0: facts}), prediction, seen))


def run_of(*lanes: LaneVerdict) -> RunVerdict:
    return RunVerdict(Path("run"), Verdict.gravest(lane.verdict for lane in lanes), lanes)


def test_a_finding_that_a_known_defect_explains_is_a_violation_that_names_it(run_dir: Path) -> None:
    lane = verdict_of(run_dir)
    assert (lane.verdict, lane.outcome) == (Verdict.VIOLATION, Verdict.VIOLATION)
    assert lane.reasons == (f"{FOUND} (known defect: {DEFECT})",)
    assert lane.to_json()["known_defects"] == [DEFECT]
    assert "accepted_defects" not in lane.to_json()


def test_so_it_is_where_the_finding_is_permitted_and_nothing_else_explains_it(run_dir: Path) -> None:
    permitted = replace(
        PREDICTION, statuses={**PREDICTION.statuses, Anomaly.DUPLICATE: Status.PERMITTED}, known_defects={}
    )
    unexplained = replace(TWICE, causes={"unexplained": TWICE.count})
    lane = verdict_of(run_dir, prediction=permitted, duplicate=unexplained)
    assert lane.reasons[0].endswith(f"no behaviour of the model explains 1 of 1 (known defect: {DEFECT})")
    assert lane.known_defects == (DEFECT,)
    unmet = verdict_of(run_dir, {}, prediction=permitted, duplicate=unexplained)
    assert (unmet.verdict, unmet.known_defects) == (Verdict.VIOLATION, ())
    assert verdict_of(run_dir, prediction=permitted).verdict is Verdict.CONFORMS


@pytest.mark.parametrize(
    ("preconditions", "prediction", "seen"),
    [
        ({}, PREDICTION, TWICE),
        ({"b": MET["a"]}, PREDICTION, TWICE),
        ({"a": (precondition("KAFKA-15591", 1, 0),)}, PREDICTION, TWICE),
        ({"a": (precondition(DEFECT, 1500, 1),)}, PREDICTION, TWICE),
        ({"a": (precondition(DEFECT, 1500, None),)}, PREDICTION, TWICE),
        ({"a": (precondition(DEFECT, 999, 0),)}, PREDICTION, TWICE),
        ({"a": (precondition(DEFECT, 2001, 0),)}, PREDICTION, TWICE),
        (MET, replace(PREDICTION, known_defects={}), TWICE),
        (MET, replace(PREDICTION, known_defects={Anomaly.LOST_WRITE: ((DEFECT,),)}), TWICE),
        (MET, PREDICTION, Observation(1)),
        (MET, PREDICTION, Observation(2, records=(RECORD,))),
        (MET, PREDICTION, Observation(2, records=(RECORD, (0, 8)))),
    ],
    ids=[
        "no precondition",
        "another lane's",
        "another defect's",
        "another producer's",
        "nobody's",
        "before the record was sent",
        "after the record's outcome",
        "the model names none",
        "for another anomaly",
        "records unknown",
        "one record unknown",
        "one record without copies",
    ],
)
def test_without_evidence_a_known_defect_is_neither_named_nor_accepted(
    run_dir: Path,
    preconditions: Mapping[str, Sequence[DefectPrecondition]],
    prediction: LanePrediction,
    seen: Observation,
) -> None:
    lane = verdict_of(run_dir, preconditions, prediction=prediction, duplicate=seen)
    assert lane.reasons == (FOUND.replace("1", str(seen.count)),)
    assert "known_defects" not in lane.to_json()
    assert lane.accepting([DEFECT, "KAFKA-15591"]) == lane


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (copies(0, 1), True),
        (copies(0, 1, 2), True),
        (copies(3, 7, brokers=(2,)), True),
        (copies(1, 0), False),
        (copies(0, 0), False),
        (copies(0, 1, 1), False),
        (copies(0, None), False),
        (copies(-1, 0), False),
        (copies(0, 1, brokers=()), False),
    ],
)
def test_each_copy_on_a_broker_stands_in_a_later_epoch(tmp_path: Path, rows: Rows, named: bool) -> None:
    lane = verdict_of(rows.write(tmp_path))
    assert lane.verdict == Verdict.VIOLATION
    assert (lane.known_defects == (DEFECT,)) == named


def test_copies_on_two_brokers_are_not_two_epochs(tmp_path: Path) -> None:
    rows = copies(0, 1, brokers=())
    rows.replica(1, 10, 7, producer_epoch=0).replica(2, 11, 7, producer_epoch=1)
    assert not verdict_of(rows.write(tmp_path)).known_defects


@pytest.mark.parametrize(
    ("column", "value"), [("complete_ns", None), ("complete_ns", 1), ("complete_ns", 3000), ("producer_id", 3)]
)
def test_the_record_must_have_been_in_doubt(tmp_path: Path, column: str, value: int | None) -> None:
    rows = copies(0, 1)
    rows.produced[0][column] = value
    lane = verdict_of(rows.write(tmp_path), {"a": (precondition(DEFECT, 1500, 0),)})
    assert bool(lane.known_defects) == (column == "complete_ns" and value == 3000)
    rows.produced[0]["outcome"] = "info"
    lane = verdict_of(rows.write(tmp_path), {"a": (precondition(DEFECT, 1500, 0),)})
    assert bool(lane.known_defects) == (column == "complete_ns" and value != 1)


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"ts_ns": 90}, False),
        ({"ts_ns": 210}, False),
        ({"producer_id": 2}, False),
        ({"outcome": "aborted"}, False),
        ({"outcome": "info"}, False),
        ({"sent": "ok"}, False),
        ({"stored": True}, False),
        ({"unknown": True}, False),
    ],
)
def test_a_transaction_that_was_committed_without_what_expired(changes: dict[str, Any], holds: bool) -> None:
    recorded, known = Recorded(), {"outcome": "committed", "sent": "info", "ts_ns": 150, "producer_id": 1, **changes}
    recorded.sent[1, 7].append(Sent(110, 180, 0, known["sent"], 0, None))
    if "unknown" not in changes:
        recorded.transactions[1, 0].append(("pay-0", 100, 200, known["outcome"]))
    if "stored" in changes:
        recorded.stored[1, 7].append((0, 5))
    met = precondition("KAFKA-5385", known["ts_ns"], known["producer_id"])
    assert committed_without(met, TransactionAnomaly.LOST_TRANSACTION, (1, 7), recorded) == holds


def late(**changes: Any) -> tuple[Recorded, DefectPrecondition]:
    """Record 7 of producer 1, in transaction 3: it was to be aborted, and an EndTxn that came late committed it."""
    recorded = Recorded()
    recorded.sent[1, 7].append(Sent(150, None, changes.get("transaction", 3), "ok", 0, 10))
    recorded.transactions[1, 3].append((changes.get("writer", "t"), 100, changes.get("end_ns", 300), "aborted"))
    recorded.transactions[2, 0].append(("t", 900, None, "committed"))
    for broker in (1, 2):
        recorded.copies[1, 7][broker, 0].append((10, 0))
        recorded.markers[broker, 0] += [(9, 1, "abort"), (11, 5, "abort"), (12, 1, "commit"), (20, 1, "abort")]
    recorded.markers[2, 0] += changes.get("markers", [])
    given: dict[str, Any] = {"occurred_ns": 200, "producer_id": 1, "transactional_id": "t", "commits": True}
    return recorded, precondition(LATE, **{**given, **changes.get("met", {})})


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"end_ns": 200}, True),
        ({"end_ns": 199}, False),
        ({"end_ns": None}, False),
        ({"met": {"occurred_ns": 100}}, True),
        ({"met": {"occurred_ns": 99}}, False),
        ({"met": {"producer_id": 2}}, False),
        ({"met": {"producer_id": None}}, False),
        ({"met": {"transactional_id": "u"}}, False),
        ({"met": {"transactional_id": None}}, False),
        ({"met": {"commits": False}}, False),
        ({"met": {"commits": None}}, False),
        ({"writer": "u"}, False),
        ({"transaction": 4}, False),
        ({"transaction": None}, False),
        ({"markers": [(11, 1, "abort")]}, False),
        ({"markers": [(11, 2, "abort")]}, False),
        ({"markers": [(10, 1, "abort")]}, True),
    ],
)
def test_a_commit_that_came_late_explains_what_its_marker_showed(changes: dict[str, Any], holds: bool) -> None:
    recorded, met = late(**changes)
    assert ended_late(met, TransactionAnomaly.ABORTED_READ, (1, 7), recorded) == holds
    assert not ended_late(met, TransactionAnomaly.LOST_TRANSACTION, (1, 7), recorded)
    assert not ended_late(met, TransactionAnomaly.ABORTED_READ, (1, 8), recorded)


def test_the_rows_of_a_transactional_lane(tmp_path: Path) -> None:
    lanes = [{"lane": name, "idempotence": True, "transactional": {"timeout_ms": 1000}} for name in "ab"]
    rows = Rows(lanes=lanes, assignments=[], transactions=[])
    for lane, at in (("a", 5), ("b", 6)):
        ended = {"lane": lane, "producer_id": 0, "transaction": 3, "transactional_id": f"of-{lane}"}
        rows.transactions = [*(rows.transactions or ()), {**ended, "begin_ns": at, "end_ns": None, "outcome": "info"}]
        rows.replica(1, 0, 7, lane=lane, partition=at).replica(1, 1, -1, lane=lane, partition=at)
        assert rows.replicas is not None
        rows.replicas[-1]["kind"] = "abort"
    run = open_run(rows.write(tmp_path / "run"))
    found = recorded_of(run, run.lane("a"), [RECORD], [])
    assert found.markers == {(1, 5): [(1, 0, "abort")]}
    assert found.transactions == {(0, 3): [("of-a", 5, None, "info")]}
    assert found.copies == {RECORD: {(1, 5): [(0, None)]}}


def test_records_are_explained_by_defects_that_the_model_knows() -> None:
    assert known_defects.EXPLAINS.keys() < KNOWN_DEFECTS.keys()


def test_without_markers_a_late_end_explains_nothing() -> None:
    recorded, met = late()
    recorded.markers.clear()
    assert not ended_late(met, TransactionAnomaly.ABORTED_READ, (1, 7), recorded)
    recorded, met = late()
    recorded.copies.clear()  # type: ignore[attr-defined]
    assert not ended_late(met, TransactionAnomaly.ABORTED_READ, (1, 7), recorded)


def test_an_abort_that_came_late_explains_what_it_took() -> None:
    recorded, met = late(met={"commits": False})
    recorded.transactions[1, 3] = [("t", 100, 300, "committed")]
    for markers in recorded.markers.values():
        markers[:] = [(12, 1, "abort"), (20, 1, "commit")]
    assert ended_late(met, TransactionAnomaly.LOST_TRANSACTION, (1, 7), recorded)
    assert not ended_late(met, TransactionAnomaly.ABORTED_READ, (1, 7), recorded)


def unplaced(*rows: tuple[int, int, int | None], partition: int | None = 0, outcome: str = "ok") -> Rows:
    """Records (producer, seq, offset) of produced/, in one partition; those with an offset are in the log."""
    found = Rows(lanes=[{"lane": "a", "idempotence": True, "partitions": 2}])
    for producer, seq, offset in rows:
        found.send(seq, offset, outcome, producer_id=producer)
        found.produced[-1]["partition"] = partition
        if offset is not None:
            found.store(offset, seq, producer_id=producer)
    return found


IMPLIED = precondition("KAFKA-15591", 1, 1, partition=0, messages=2)
LOSING = replace(PREDICTION, known_defects={Anomaly.LOST_WRITE: (("KAFKA-15591",),)})
FIRST_TWO = unplaced((1, 0, None), (1, 1, None), (1, 2, 0), (1, 9, None), (0, 0, None))


@pytest.mark.parametrize(
    ("rows", "met", "lost", "named"),
    [
        (FIRST_TWO, IMPLIED, [(1, 0), (1, 1)], True),
        (FIRST_TWO, IMPLIED, [(1, 1)], True),
        (FIRST_TWO, replace(IMPLIED, messages=1), [(1, 0), (1, 1)], False),
        (FIRST_TWO, replace(IMPLIED, messages=1), [(1, 0)], True),
        (FIRST_TWO, replace(IMPLIED, messages=0), [(1, 0)], False),
        (FIRST_TWO, replace(IMPLIED, messages=-1), [(1, 0)], False),
        (FIRST_TWO, replace(IMPLIED, messages=None), [(1, 0)], False),
        (FIRST_TWO, replace(IMPLIED, partition=1), [(1, 0)], False),
        (FIRST_TWO, replace(IMPLIED, partition=None), [(1, 0)], False),
        (FIRST_TWO, replace(IMPLIED, producer_id=None), [(1, 0)], False),
        (FIRST_TWO, IMPLIED, [(1, 0), (1, 9)], False),
        (FIRST_TWO, IMPLIED, [(1, 0), (0, 0)], False),
        (FIRST_TWO, IMPLIED, [(1, 2)], False),
        (unplaced((1, 0, 5), (1, 1, 6)), IMPLIED, [(1, 0)], False),
        (unplaced((1, 0, 0), (1, 1, None), (1, 2, None)), IMPLIED, [(1, 1)], False),
        (unplaced((2, 0, 0), (1, 1, None), (1, 2, None)), IMPLIED, [(1, 1)], True),
        (unplaced((1, 0, None), outcome="info"), IMPLIED, [(1, 0)], False),
        (unplaced((1, 0, None), partition=None), IMPLIED, [(1, 0)], False),
    ],
)
def test_a_lost_record_must_have_been_acknowledged_implicitly(
    tmp_path: Path, rows: Rows, met: DefectPrecondition, lost: list[tuple[int, int]], named: bool
) -> None:
    seen = Observation(len(lost), records=tuple(lost))
    lane = verdict_of(rows.write(tmp_path), {"a": (met,)}, prediction=LOSING, lost_write=seen)
    assert (lane.known_defects == ("KAFKA-15591",)) == named
    assert (lane.accepting(["KAFKA-15591"]).outcome == Verdict.CONFORMS) == named
    everything = replace(PREDICTION, known_defects=dict.fromkeys(Anomaly, (("KAFKA-15591",),)))
    other = verdict_of(rows.write(tmp_path / "again"), {"a": (met,)}, prediction=everything, truncated_read=seen)
    assert other.known_defects == ()


@pytest.mark.parametrize(
    ("met", "doubted"),
    [
        ((), True),
        ((IMPLIED,), False),
        ((IMPLIED, IMPLIED), False),
        ((replace(IMPLIED, messages=1),) * 2, True),
        ((replace(IMPLIED, messages=1), replace(IMPLIED, messages=1, producer_id=2)), False),
        ((replace(IMPLIED, defect="librdkafka-4953"),), True),
    ],
)
def test_acknowledgements_that_are_known_to_be_implicit_are_no_doubt(
    tmp_path: Path, met: tuple[DefectPrecondition, ...], doubted: bool
) -> None:
    path = unplaced((1, 0, None), (1, 1, None)).write(tmp_path)
    (path / EXPERIMENT_FILE).touch()
    facts = replace(FULL, unplaced=2)
    seen = Observation(1, records=((1, 0),))
    lane = verdict_of(path, {"a": met}, prediction=LOSING, facts=facts, lost_write=seen)
    assert ("2 acknowledgements name no offset" in lane.reasons) == doubted


@pytest.mark.parametrize(("told", "doubted"), [(0, True), (1, True), (2, False)])
def test_acknowledgements_without_an_offset_that_the_producer_told_of_are_no_doubt(
    tmp_path: Path, told: int, doubted: bool
) -> None:
    path = unplaced((1, 0, None), (1, 1, None)).write(tmp_path)
    (path / EXPERIMENT_FILE).touch()
    lane = verdict_of(path, {}, facts=replace(FULL, unplaced=2), unplaced=told)
    assert ("2 acknowledgements name no offset" in lane.reasons) == doubted
    assert Anomaly.OFFSET_MISMATCH in lane.not_judged


def misplaced(
    holder: tuple[int, int] = (1, 3), *, outcome: str = "ok", end: int | None = 2000, offset: int = 5
) -> Rows:
    """Record 7 of producer 1, open from 1,000 to 2,000 ns, was acknowledged at offset 5, which holds another record."""
    found = Rows(lanes=[{"lane": "a", "idempotence": True}], clock=0).send(7, 5, outcome, producer_id=1)
    found.produced[-1] |= {"invoke_ns": 1000, "complete_ns": end}
    return found.store(offset, holder[1], producer_id=holder[0])


SARAMA, IN_ORDER = "sarama-3354", "sarama-2619"
UNANSWERED = "kafkajs-822"
OF_KAFKAJS = {"kafkajs-1005", UNANSWERED}


def lending(outcome: str = "ok", producer_id: int = 1) -> Rows:
    """Record 7 is in the log twice; record 4 of the producer was acknowledged at the first of its offsets."""
    rows = misplaced().store(8, 7, producer_id=1).store(9, 7, producer_id=1)
    return rows.send(4, 8 if outcome == "ok" else None, outcome, producer_id=producer_id)


@pytest.mark.parametrize(
    ("rows", "met", "anomaly", "named"),
    [
        (misplaced(), {}, Anomaly.LOST_WRITE, {SARAMA, *OF_KAFKAJS}),
        (misplaced(), {}, Anomaly.INCONSISTENT_OFFSET, {SARAMA, *OF_KAFKAJS}),
        (misplaced(), {}, Anomaly.REORDERED, {IN_ORDER, *OF_KAFKAJS}),
        (misplaced(), {}, Anomaly.DUPLICATE, {UNANSWERED}),
        (misplaced().store(8, 7, producer_id=1).store(9, 7, producer_id=1), {}, Anomaly.DUPLICATE, {UNANSWERED}),
        (lending(), {}, Anomaly.DUPLICATE, OF_KAFKAJS),
        (lending(), {"occurred_ns": 2001}, Anomaly.DUPLICATE, set()),
        (lending(producer_id=2), {}, Anomaly.DUPLICATE, {UNANSWERED}),
        (lending("info"), {}, Anomaly.DUPLICATE, {UNANSWERED}),
        (misplaced(), {"occurred_ns": 999}, Anomaly.LOST_WRITE, set()),
        (misplaced(), {"occurred_ns": 999}, Anomaly.REORDERED, set()),
        (misplaced(), {"occurred_ns": 1000}, Anomaly.REORDERED, {IN_ORDER, *OF_KAFKAJS}),
        (misplaced(), {"occurred_ns": 2000}, Anomaly.LOST_WRITE, {SARAMA, *OF_KAFKAJS}),
        (misplaced(), {"occurred_ns": 2001}, Anomaly.LOST_WRITE, set()),
        (misplaced(), {"occurred_ns": 2001}, Anomaly.REORDERED, set()),
        (misplaced(), {"partition": 1}, Anomaly.REORDERED, OF_KAFKAJS),
        (misplaced(), {"partition": 1}, Anomaly.LOST_WRITE, OF_KAFKAJS),
        (misplaced(), {"partition": None}, Anomaly.LOST_WRITE, OF_KAFKAJS),
        (misplaced(), {"producer_id": 0}, Anomaly.LOST_WRITE, set()),
        (misplaced(), {"producer_id": None}, Anomaly.REORDERED, set()),
        (misplaced(holder=(0, 3)), {}, Anomaly.LOST_WRITE, set()),
        (misplaced(holder=(1, 7)), {}, Anomaly.LOST_WRITE, set()),
        (misplaced().store(5, 4, producer_id=1), {}, Anomaly.LOST_WRITE, set()),
        (misplaced(offset=6), {}, Anomaly.LOST_WRITE, set()),
        (misplaced(offset=6), {}, Anomaly.REORDERED, {IN_ORDER, *OF_KAFKAJS}),
        (misplaced(outcome="info", end=None), {}, Anomaly.REORDERED, {IN_ORDER, *OF_KAFKAJS}),
        (misplaced(end=None), {}, Anomaly.REORDERED, set()),
        (misplaced().send(7, 5, producer_id=1), {}, Anomaly.REORDERED, set()),
    ],
)
def test_repetitions_explain_only_records_that_were_open_and_took_another_s_place(
    tmp_path: Path, rows: Rows, met: dict[str, Any], anomaly: Anomaly, named: set[str]
) -> None:
    defects = (SARAMA, IN_ORDER, *OF_KAFKAJS)
    prediction = replace(PREDICTION, known_defects=dict.fromkeys(Anomaly, tuple((defect,) for defect in defects)))
    given: dict[str, Any] = {"occurred_ns": 1500, "producer_id": 1, "partition": 0, **met}
    seen = {str(anomaly): Observation(1, records=((1, 7),))}
    run_dir = rows.write(tmp_path)
    for defect in defects:
        told = {"a": (precondition(defect, **given),)}
        lane = verdict_of(run_dir, told, prediction=prediction, **seen)
        assert lane.known_defects == ((defect,) if defect in named else ())


def test_defects_that_explain_together_are_named_and_accepted_together(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_defects, "EXPLAINS", {DEFECT: renewed_epoch, LATE: lambda *_: True})
    together = replace(PREDICTION, known_defects={Anomaly.DUPLICATE: ((DEFECT, LATE),)})
    assert verdict_of(run_dir, prediction=together).known_defects == ()
    lane = verdict_of(run_dir, {"a": (*MET["a"], precondition(LATE, 1, 0))}, prediction=together)
    assert lane.reasons == (f"{FOUND} (known defect: {DEFECT} with {LATE})",)
    assert lane.accepting([DEFECT]) == lane
    assert lane.accepting([LATE]) == lane
    accepted = lane.accepting([LATE, DEFECT])
    assert (accepted.accepted_defects, accepted.outcome) == ((DEFECT, LATE), Verdict.CONFORMS)


def test_an_accepted_defect_leaves_the_violation_and_changes_the_exit_code(run_dir: Path) -> None:
    run = run_of(verdict_of(run_dir)).accepting([DEFECT])
    (lane,) = run.lanes
    assert (run.verdict, run.outcome, lane.verdict) == (Verdict.VIOLATION, Verdict.CONFORMS, Verdict.VIOLATION)
    assert (run.described, lane.described) == ("violation (accepted)", "violation (accepted)")
    entry = run.to_json()["lanes"][0]
    assert (run.to_json()["verdict"], entry["verdict"]) == ("violation", "violation")
    assert (entry["known_defects"], entry["accepted_defects"]) == ([DEFECT], [DEFECT])
    assert entry["reasons"] == [f"{FOUND} (known defect: {DEFECT})", f"accepted as known: {DEFECT}"]


def test_only_what_was_asked_for_is_accepted(run_dir: Path) -> None:
    run = run_of(verdict_of(run_dir))
    assert run.accepting([]) == run
    assert run.accepting(["KAFKA-15591"]) == run
    assert run.outcome == Verdict.VIOLATION


@pytest.mark.parametrize("reason", ["another violation", "a doubt", "unknown"])
def test_any_other_reason_keeps_a_lane_from_being_accepted(run_dir: Path, reason: str) -> None:
    lane = {
        "another violation": lambda: verdict_of(run_dir, duplicate=TWICE, lost_write=Observation(1)),
        "a doubt": lambda: verdict_of(run_dir, facts=replace(FULL, read_end=5)),
        "unknown": lambda: replace(verdict_of(run_dir), verdict=Verdict.UNKNOWN),
    }[reason]()
    assert lane.known_defects == (DEFECT,)
    assert lane.accepting([DEFECT]) == lane
    assert run_of(lane).accepting([DEFECT]).outcome == lane.verdict


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_other_lanes_decide_the_exit_code(run_dir: Path, verdict: Verdict) -> None:
    explained = verdict_of(run_dir)
    other = replace(explained, verdict=verdict, reasons=("because",), explained={})
    assert run_of(explained, other).accepting([DEFECT]).outcome == verdict


def test_a_run_that_the_checkers_disagree_on_stays_unknown(run_dir: Path) -> None:
    run = replace(run_of(verdict_of(run_dir)), verdict=Verdict.UNKNOWN)
    assert run.accepting([DEFECT]).outcome == Verdict.UNKNOWN


@pytest.mark.parametrize("command", ["run", "verify"])
def test_an_unknown_defect_is_refused_before_anything_is_read(tmp_path: Path, command: str) -> None:
    result = ended(cli, command, tmp_path / "missing", "--accept-known", DEFECT, "--accept-known", "librdkafka-1")
    assert result.exit_code == 64
    assert "--accept-known: 'librdkafka-1': expected known defects out of librdkafka-4953, KAFKA-15591" in result.output


def planted(*, met: bool) -> Rows:
    """An idempotent producer's record that is in the log twice, sent in two producer epochs."""
    rows = Rows(lanes=[{"lane": "a", "acks": "all", "idempotence": True, "replication_factor": 2}])
    for seq in range(20):
        rows.all(seq, seq).replica(1, seq, seq, producer_epoch=0).replica(2, seq, seq, producer_epoch=0)
    rows.read(20, 7).store(20, 7).replica(1, 20, 7, producer_epoch=1).replica(2, 20, 7, producer_epoch=1)
    entry = {"high_watermark": 21, "log_end_offset": 21, "leader_epochs": [[0, 0]]}
    rows.checkpoints = {"brokers": {str(broker): {"a/0": dict(entry)} for broker in (1, 2)}}
    rows.event("run_started", run_id="r", experiment="e", lanes=["a"], collects=["log", "replicas"])
    if met:
        met = {"defect": DEFECT, "lane": "a", "producer_id": 0, "evidence": "a message timed out"}
        rows.event("defect_precondition", ts_ns=rows.produced[7]["invoke_ns"], **met)
    return rows


@pytest.mark.parametrize(
    ("met", "options", "code"),
    [(True, (), 1), (True, ("--accept-known", DEFECT), 0), (False, ("--accept-known", DEFECT), 1)],
)
def test_the_exit_code_of_a_planted_run(tmp_path: Path, met: bool, options: tuple[str, ...], code: int) -> None:
    run_dir = planted(met=met).write(tmp_path / "run")
    result = CliRunner().invoke(verify_command, ["--engine=duckdb", str(run_dir), *options])
    assert result.exit_code == code, result.output
    verdict = json.loads((run_dir / "verdict.json").read_text())
    (lane,) = verdict["lanes"]
    assert (verdict["verdict"], lane["verdict"]) == ("violation", "violation")
    assert lane.get("known_defects", []) == [DEFECT] * met
    assert lane.get("accepted_defects", []) == [DEFECT] * (code == 0)
    assert (f"accepted as known: {DEFECT}" in result.output) == (code == 0)
