"""Known defects in a verdict: which findings they explain, on what evidence, and what accepting them changes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from click.testing import CliRunner

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import EXPERIMENT_FILE
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS
from kafka_chaos.verification.by_statements import explained, read
from kafka_chaos.verification.cli import verify_command
from kafka_chaos.verification.engines.duckdb_engine import DuckDb
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.tables import Table, read_tables
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.known_defects import EXPLAINED_BY
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.statements.library import DEFECTS, statements
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts
from tests.commands import ended
from tests.verification.samples.partitions import FULL
from tests.verification.samples.run_dirs import Rows
from tests.verification.samples.together import together

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


class Seen(NamedTuple):
    """What was found of an anomaly: how often, of which records, and the causes."""

    count: int
    records: tuple[tuple[int | None, int | None], ...] = ()
    causes: Mapping[str, int] = {}


TWICE = Seen(1, (RECORD,))
Explained = Mapping[Any, Mapping[str, int]]
"""By anomaly how many of its findings each defect explains."""
_OF_RECORDS = {"producer_id": pa.int32(), "seq": pa.int64()}
_FINDINGS = pa.schema({"number": pa.int64(), "lane": pa.string(), "anomaly": pa.string(), **_OF_RECORDS})


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


def run_with(
    run_dir: Path, preconditions: Mapping[str, Sequence[DefectPrecondition]], unplaced: int = 0
) -> RunDirectory:
    tables = read_tables(run_dir)
    tables = {**tables, "replicas": Table(files=tables["replicas"].files)}
    return RunDirectory(run_dir, (LANE,), tables, Events((), preconditions=preconditions, unplaced={"a": unplaced}))


def explained_in(run: RunDirectory, found: Mapping[str, Mapping[str, Seen]]) -> Mapping[str, Explained]:
    """By lane and anomaly how many of these findings each defect explains."""
    records = [
        (lane, anomaly, *record)
        for lane, of_lane in found.items()
        for anomaly, seen in of_lane.items()
        for record in seen.records
    ]
    rows = [dict(zip(_FINDINGS.names, (number, *row), strict=True)) for number, row in enumerate(records)]
    by_lane: dict[str, dict[Any, Mapping[str, int]]] = {lane: {} for lane in found}
    with DuckDb(run) as engine:
        read(engine, run)
        engine.add("findings", pa.Table.from_pylist(rows, _FINDINGS))
        for (lane, anomaly), counts in explained(engine, run, found.keys()).items():
            by_lane[lane][anomaly] = counts
    return by_lane


class Case(NamedTuple):
    """A history of lane `a`, the precondition that it met, and what was found in it."""

    rows: Rows
    met: Sequence[DefectPrecondition]
    found: Mapping[str, Seen]


CASES: list[Case] = []


def case(rows: Rows, *met: DefectPrecondition, **found: Seen) -> int:
    """The number of a case, which is read as a lane of one run with all others: `of_cases` tells what explains it."""
    CASES.append(Case(rows, met, found))
    return len(CASES) - 1


@pytest.fixture(scope="module")
def of_cases(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Explained]:
    by_lane = {f"lane-{number}": case for number, case in enumerate(CASES)}
    folder = together({lane: case.rows for lane, case in by_lane.items()}).write(tmp_path_factory.mktemp("cases"))
    run = run_with(folder, {lane: [replace(met, lane=lane) for met in case.met] for lane, case in by_lane.items()})
    run = replace(run, lanes=tuple(replace(LANE, lane=lane) for lane in by_lane))
    by_defects = explained_in(run, {lane: case.found for lane, case in by_lane.items()})
    return [by_defects[lane] for lane in by_lane]


@pytest.fixture
def verdict_on(of_cases: Sequence[Explained], run_dir: Path) -> Callable[..., LaneVerdict]:
    def judged(number: int, **evidence: Any) -> LaneVerdict:
        return verdict_by(
            of_cases[number], run_with(run_dir, {"a": CASES[number].met}), CASES[number].found, **evidence
        )

    return judged


def verdict_by(
    by_defects: Explained,
    run: RunDirectory,
    observed: Mapping[str, Seen],
    *,
    prediction: LanePrediction = PREDICTION,
    facts: PartitionFacts = FULL,
) -> LaneVerdict:
    seen = {
        Anomaly(name): Observation(one.count, causes=one.causes, explained=by_defects.get(name, {}))
        for name, one in observed.items()
    }
    return judge(LaneEvidence(run, LANE, LaneFacts({0: facts}), prediction, seen))


def verdict_of(
    run_dir: Path,
    preconditions: Mapping[str, Sequence[DefectPrecondition]] = MET,
    *,
    unplaced: int = 0,
    prediction: LanePrediction = PREDICTION,
    facts: PartitionFacts = FULL,
    **observed: Seen,
) -> LaneVerdict:
    run, observed = run_with(run_dir, preconditions, unplaced), observed or {"duplicate": TWICE}
    return verdict_by(explained_in(run, {"a": observed})["a"], run, observed, prediction=prediction, facts=facts)


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
    unexplained = TWICE._replace(causes={"unexplained": TWICE.count})
    lane = verdict_of(run_dir, prediction=permitted, duplicate=unexplained)
    assert lane.reasons[0].endswith(f"no behaviour of the model explains 1 of 1 (known defect: {DEFECT})")
    assert lane.known_defects == (DEFECT,)
    unmet = verdict_of(run_dir, {}, prediction=permitted, duplicate=unexplained)
    assert (unmet.verdict, unmet.known_defects) == (Verdict.VIOLATION, ())
    assert verdict_of(run_dir, prediction=permitted).verdict is Verdict.CONFORMS


WITHOUT_EVIDENCE: dict[str, tuple[Mapping[str, Sequence[DefectPrecondition]], LanePrediction, Seen]] = {
    "no precondition": ({}, PREDICTION, TWICE),
    "another lane's": ({"b": MET["a"]}, PREDICTION, TWICE),
    "another defect's": ({"a": (precondition("KAFKA-15591", 1, 0),)}, PREDICTION, TWICE),
    "another producer's": ({"a": (precondition(DEFECT, 1500, 1),)}, PREDICTION, TWICE),
    "nobody's": ({"a": (precondition(DEFECT, 1500, None),)}, PREDICTION, TWICE),
    "before the record was sent": ({"a": (precondition(DEFECT, 999, 0),)}, PREDICTION, TWICE),
    "after the record's outcome": ({"a": (precondition(DEFECT, 2001, 0),)}, PREDICTION, TWICE),
    "the model names none": (MET, replace(PREDICTION, known_defects={}), TWICE),
    "for another anomaly": (MET, replace(PREDICTION, known_defects={Anomaly.LOST_WRITE: ((DEFECT,),)}), TWICE),
    "records unknown": (MET, PREDICTION, Seen(1)),
    "one record unknown": (MET, PREDICTION, Seen(2, (RECORD,))),
    "one record without copies": (MET, PREDICTION, Seen(2, (RECORD, (0, 8)))),
}


@pytest.mark.parametrize(("preconditions", "prediction", "seen"), WITHOUT_EVIDENCE.values(), ids=WITHOUT_EVIDENCE)
def test_without_evidence_a_known_defect_is_neither_named_nor_accepted(
    run_dir: Path, preconditions: Mapping[str, Sequence[DefectPrecondition]], prediction: LanePrediction, seen: Seen
) -> None:
    lane = verdict_of(run_dir, preconditions, prediction=prediction, duplicate=seen)
    assert lane.reasons == (FOUND.replace("1", str(seen.count)),)
    assert "known_defects" not in lane.to_json()
    assert lane.accepting([DEFECT, "KAFKA-15591"]) == lane


def twice(rows: Rows, **produced: Any) -> int:
    """A record is there twice. `produced`: what is told of it instead."""
    rows.produced[0] |= produced
    return case(rows, *MET["a"], duplicate=TWICE)


@pytest.mark.parametrize(
    ("number", "named"),
    [
        # Each copy on a broker stands in a later epoch.
        (twice(copies(0, 1)), True),
        (twice(copies(0, 1, 2)), True),
        (twice(copies(3, 7, brokers=(2,))), True),
        (twice(copies(1, 0)), False),
        (twice(copies(0, 0)), False),
        (twice(copies(0, 1, 1)), False),
        (twice(copies(0, None)), False),
        (twice(copies(-1, 0)), False),
        (twice(copies(0, 1, brokers=())), False),
        # Copies on two brokers are not two epochs.
        (
            twice(copies(0, 1, brokers=()).replica(1, 10, 7, producer_epoch=0).replica(2, 11, 7, producer_epoch=1)),
            False,
        ),
        # It was in doubt.
        (twice(copies(0, 1), complete_ns=None), False),
        (twice(copies(0, 1), complete_ns=None, outcome="info"), True),
        (twice(copies(0, 1), complete_ns=1), False),
        (twice(copies(0, 1), complete_ns=1, outcome="info"), False),
        (twice(copies(0, 1), complete_ns=3000), True),
        (twice(copies(0, 1), complete_ns=3000, outcome="info"), True),
        (twice(copies(0, 1), producer_id=3), False),
        (twice(copies(0, 1), producer_id=3, outcome="info"), False),
    ],
)
def test_a_record_that_was_in_doubt_is_there_twice_if_each_copy_stands_in_a_later_epoch(
    verdict_on: Callable[..., LaneVerdict], number: int, named: bool
) -> None:
    lane = verdict_on(number)
    assert lane.verdict == Verdict.VIOLATION
    assert lane.known_defects == ((DEFECT,) if named else ())


NOT_EXPIRED: list[dict[str, Any]] = [
    {"ts_ns": 90}, {"ts_ns": 210}, {"producer_id": 2}, {"outcome": "aborted"}, {"outcome": "info"}, {"sent": "ok"},
    {"stored": True}, {"unknown": True}, {"other": "ok"},
]  # fmt: skip


def expired(changes: dict[str, Any]) -> int:
    """Record 7 of producer 1 expired, and its transaction was committed without it."""
    known = {"outcome": "committed", "sent": "info", "ts_ns": 150, "producer_id": 1, **changes}
    rows = Rows(transactions=[]).send(7, None, known["sent"], producer_id=1)
    rows.send(8, None, changes.get("other", "info"), producer_id=1)  # another one that the transaction lacks
    for row in rows.produced:
        row |= {"invoke_ns": 110, "complete_ns": 180, "transaction": 0}
    if "unknown" not in changes:
        transaction = {"lane": "a", "producer_id": 1, "transaction": 0, "transactional_id": "pay-0"}
        rows.transactions = [{**transaction, "begin_ns": 100, "end_ns": 200, "outcome": known["outcome"]}]
    if "stored" in changes:
        rows.store(5, 7, producer_id=1)
    met = precondition("KAFKA-5385", known["ts_ns"], known["producer_id"])
    return case(rows, met, lost_transaction=Seen(1, ((1, 7),)))


def late(changes: dict[str, Any]) -> int:
    """Record 7 of producer 1, in transaction 3: it was to be aborted, and an EndTxn that came late committed it.
    Of record 8 the late EndTxn never explains anything."""
    rows = Rows().send(7, 10, producer_id=1)
    rows.produced[0] |= {"invoke_ns": 150, "complete_ns": None, "transaction": changes.get("transaction", 3)}
    if "other" in changes:
        rows.send(9, 10, producer_id=1)
        rows.produced[1]["transaction"] = 3
    first = {"producer_id": 1, "transaction": 3, "transactional_id": changes.get("writer", "t"), "begin_ns": 100}
    first |= {"end_ns": changes.get("end_ns", 300), "outcome": changes.get("outcome", "aborted")}
    later = {"producer_id": 2, "transaction": 0, "transactional_id": "t", "begin_ns": 900, "outcome": "committed"}
    rows.transactions = [{"lane": "a", **first}, {"lane": "a", **later}]
    usual = [(9, 1, "abort"), (11, 5, "abort"), (12, 1, "commit"), (20, 1, "abort")]
    for broker in (1, 2):
        markers = [*changes.get("all_markers", usual), *(changes.get("markers", []) if broker == 2 else [])]
        copies = [(10, 1, "data")] if changes.get("copies", True) else []
        for offset, producer, kind in (*copies, *markers):
            rows.replica(broker, offset, 7 if kind == "data" else -1)
            assert rows.replicas is not None
            rows.replicas[-1] |= {"producer_id": producer, "kind": kind}
    given: dict[str, Any] = {"occurred_ns": 200, "producer_id": 1, "transactional_id": "t", "commits": True}
    both = {"aborted_read": Seen(1, ((1, 7), (1, 8))), "lost_transaction": Seen(1, ((1, 7),))}
    return case(rows, precondition(LATE, **{**given, **changes.get("met", {})}), **both)


TOOK: dict[str, Any] = {"outcome": "committed", "all_markers": [(12, 1, "abort"), (20, 1, "commit")]}
NOT_LATE: list[dict[str, Any]] = [
    {"end_ns": 199}, {"end_ns": None}, {"met": {"occurred_ns": 99}}, {"met": {"producer_id": 2}},
    {"met": {"producer_id": None}}, {"met": {"transactional_id": "u"}}, {"met": {"transactional_id": None}},
    {"met": {"commits": False}}, {"met": {"commits": None}}, {"writer": "u"}, {"transaction": 4}, {"transaction": None},
    {"markers": [(11, 1, "abort")]}, {"markers": [(11, 2, "abort")]}, {"all_markers": []}, {"copies": False},
    {"met": {"commits": False}, **TOOK, "other": "in no log"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "anomaly"),
    [
        (late({}), "aborted_read"),
        (late({"end_ns": 200}), "aborted_read"),
        (late({"met": {"occurred_ns": 100}}), "aborted_read"),
        (late({"markers": [(10, 1, "abort")]}), "aborted_read"),
        # An abort that came late explains what it took.
        (late({"met": {"commits": False}, **TOOK}), "lost_transaction"),
        *((late(changes), None) for changes in NOT_LATE),
        (expired({}), "lost_transaction"),
        *((expired(changes), None) for changes in NOT_EXPIRED),
    ],
)
def test_a_commit_that_came_late_or_without_what_expired_explains_what_it_showed_or_lost(
    of_cases: Sequence[Explained], number: int, anomaly: str | None
) -> None:
    (met,) = CASES[number].met
    assert of_cases[number] == ({} if anomaly is None else {anomaly: {met.defect: 1}})


def test_records_are_explained_by_defects_that_the_model_knows() -> None:
    assert EXPLAINED_BY.keys() < MODELLED_DEFECTS.keys()
    assert {*EXPLAINED_BY.values()} == statements(DEFECTS).keys()


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


def implied(rows: Rows, met: DefectPrecondition, *lost: tuple[int, int]) -> tuple[int, int]:
    """The records are lost, or were read and are not in the log."""
    seen = Seen(len(lost), lost)
    return case(rows, met, lost_write=seen), case(rows, met, truncated_read=seen)


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        (implied(FIRST_TWO, IMPLIED, (1, 0), (1, 1)), True),
        (implied(FIRST_TWO, IMPLIED, (1, 1)), True),
        (implied(FIRST_TWO, replace(IMPLIED, messages=1), (1, 0), (1, 1)), False),
        (implied(FIRST_TWO, replace(IMPLIED, messages=1), (1, 0)), True),
        (implied(FIRST_TWO, replace(IMPLIED, messages=0), (1, 0)), False),
        (implied(FIRST_TWO, replace(IMPLIED, messages=-1), (1, 0)), False),
        (implied(FIRST_TWO, replace(IMPLIED, messages=None), (1, 0)), False),
        (implied(FIRST_TWO, replace(IMPLIED, partition=1), (1, 0)), False),
        (implied(FIRST_TWO, replace(IMPLIED, partition=None), (1, 0)), False),
        (implied(FIRST_TWO, replace(IMPLIED, producer_id=None), (1, 0)), False),
        (implied(FIRST_TWO, IMPLIED, (1, 0), (1, 9)), False),
        (implied(FIRST_TWO, IMPLIED, (1, 0), (0, 0)), False),
        (implied(FIRST_TWO, IMPLIED, (1, 2)), False),
        (implied(unplaced((1, 0, 5), (1, 1, 6)), IMPLIED, (1, 0)), False),
        (implied(unplaced((1, 0, 0), (1, 1, None), (1, 2, None)), IMPLIED, (1, 1)), False),
        (implied(unplaced((2, 0, 0), (1, 1, None), (1, 2, None)), IMPLIED, (1, 1)), True),
        (implied(unplaced((1, 0, None), outcome="info"), IMPLIED, (1, 0)), False),
        (implied(unplaced((1, 0, None), partition=None), IMPLIED, (1, 0)), False),
    ],
)
def test_a_lost_record_must_have_been_acknowledged_implicitly(
    verdict_on: Callable[..., LaneVerdict], numbers: tuple[int, int], named: bool
) -> None:
    lost, truncated = numbers
    lane = verdict_on(lost, prediction=LOSING)
    assert (lane.known_defects == ("KAFKA-15591",)) == named
    assert (lane.accepting(["KAFKA-15591"]).outcome == Verdict.CONFORMS) == named
    everything = replace(PREDICTION, known_defects=dict.fromkeys(Anomaly, (("KAFKA-15591",),)))
    assert verdict_on(truncated, prediction=everything).known_defects == ()


ONE_IMPLIED = replace(IMPLIED, messages=1)


@pytest.mark.parametrize(
    ("met", "told", "doubted"),
    [
        ((), 0, True),
        ((IMPLIED,), 0, False),
        ((IMPLIED, IMPLIED), 0, False),
        ((ONE_IMPLIED, ONE_IMPLIED), 0, True),
        ((ONE_IMPLIED, replace(ONE_IMPLIED, producer_id=2)), 0, False),
        ((replace(IMPLIED, defect="librdkafka-4953"),), 0, True),
        # The producer told of acknowledgements without an offset that are no defect.
        ((), 1, True),
        ((), 2, False),
    ],
)
def test_acknowledgements_without_an_offset_that_the_run_explains_are_no_doubt(
    tmp_path: Path, met: tuple[DefectPrecondition, ...], told: int, doubted: bool
) -> None:
    path = unplaced((1, 0, None), (1, 1, None)).write(tmp_path)
    (path / EXPERIMENT_FILE).touch()
    facts, lost = replace(FULL, unplaced=2), Seen(1, ((1, 0),))
    lane = verdict_of(path, {"a": met}, prediction=LOSING, facts=facts, unplaced=told, lost_write=lost)
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


REPEATING = (SARAMA, IN_ORDER, *OF_KAFKAJS)


def repeated(rows: Rows, anomaly: Anomaly, **met: Any) -> Mapping[str, int]:
    """By defect whose precondition is met, a case in which the anomaly was found of record 7."""
    known: dict[str, Any] = {"occurred_ns": 1500, "producer_id": 1, "partition": 0, **met}
    seen = {str(anomaly): Seen(1, ((1, 7),))}
    return {defect: case(rows, precondition(defect, **known), **seen) for defect in REPEATING}


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        (repeated(misplaced(), Anomaly.LOST_WRITE), {SARAMA, *OF_KAFKAJS}),
        (repeated(misplaced(), Anomaly.INCONSISTENT_OFFSET), {SARAMA, *OF_KAFKAJS}),
        (repeated(misplaced(), Anomaly.REORDERED), {IN_ORDER, *OF_KAFKAJS}),
        (repeated(misplaced(), Anomaly.DUPLICATE), {UNANSWERED}),
        (repeated(misplaced().store(8, 7, producer_id=1).store(9, 7, producer_id=1), Anomaly.DUPLICATE), {UNANSWERED}),
        (repeated(lending(), Anomaly.DUPLICATE), OF_KAFKAJS),
        (repeated(lending(), Anomaly.DUPLICATE, occurred_ns=2001), set()),
        (repeated(lending(producer_id=2), Anomaly.DUPLICATE), {UNANSWERED}),
        (repeated(lending("info"), Anomaly.DUPLICATE), {UNANSWERED}),
        (repeated(misplaced(), Anomaly.LOST_WRITE, occurred_ns=999), set()),
        (repeated(misplaced(), Anomaly.REORDERED, occurred_ns=999), set()),
        (repeated(misplaced(), Anomaly.REORDERED, occurred_ns=1000), {IN_ORDER, *OF_KAFKAJS}),
        (repeated(misplaced(), Anomaly.LOST_WRITE, occurred_ns=2000), {SARAMA, *OF_KAFKAJS}),
        (repeated(misplaced(), Anomaly.LOST_WRITE, occurred_ns=2001), set()),
        (repeated(misplaced(), Anomaly.REORDERED, occurred_ns=2001), set()),
        (repeated(misplaced(), Anomaly.REORDERED, partition=1), OF_KAFKAJS),
        (repeated(misplaced(), Anomaly.LOST_WRITE, partition=1), OF_KAFKAJS),
        (repeated(misplaced(), Anomaly.LOST_WRITE, partition=None), OF_KAFKAJS),
        (repeated(misplaced(), Anomaly.LOST_WRITE, producer_id=0), set()),
        (repeated(misplaced(), Anomaly.REORDERED, producer_id=None), set()),
        (repeated(misplaced(holder=(0, 3)), Anomaly.LOST_WRITE), set()),
        (repeated(misplaced(holder=(1, 7)), Anomaly.LOST_WRITE), set()),
        (repeated(misplaced().store(5, 4, producer_id=1), Anomaly.LOST_WRITE), set()),
        (repeated(misplaced(offset=6), Anomaly.LOST_WRITE), set()),
        (repeated(misplaced(offset=6), Anomaly.REORDERED), {IN_ORDER, *OF_KAFKAJS}),
        (repeated(misplaced(outcome="info", end=None), Anomaly.REORDERED), {IN_ORDER, *OF_KAFKAJS}),
        (repeated(misplaced(end=None), Anomaly.REORDERED), set()),
    ],
)
def test_repetitions_explain_only_records_that_were_open_and_took_another_s_place(
    verdict_on: Callable[..., LaneVerdict], numbers: Mapping[str, int], named: set[str]
) -> None:
    prediction = replace(PREDICTION, known_defects=dict.fromkeys(Anomaly, tuple((defect,) for defect in REPEATING)))
    for defect, number in numbers.items():
        lane = verdict_on(number, prediction=prediction)
        assert lane.known_defects == ((defect,) if defect in named else ())


def test_defects_that_explain_together_are_named_and_accepted_together(run_dir: Path) -> None:
    together = replace(PREDICTION, known_defects={Anomaly.DUPLICATE: ((DEFECT, UNANSWERED),)})
    assert verdict_of(run_dir, prediction=together).known_defects == ()
    lane = verdict_of(run_dir, {"a": (*MET["a"], precondition(UNANSWERED, 1500, 0))}, prediction=together)
    assert lane.reasons == (f"{FOUND} (known defect: {DEFECT} with {UNANSWERED})",)
    assert lane.accepting([DEFECT]) == lane
    assert lane.accepting([UNANSWERED]) == lane
    accepted = lane.accepting([UNANSWERED, DEFECT])
    assert (accepted.accepted_defects, accepted.outcome) == ((DEFECT, UNANSWERED), Verdict.CONFORMS)


def test_an_accepted_defect_leaves_the_violation_and_changes_the_exit_code(run_dir: Path) -> None:
    run = run_of(verdict_of(run_dir)).accepting([DEFECT])
    (lane,) = run.lanes
    assert (run.verdict, run.outcome, lane.verdict) == (Verdict.VIOLATION, Verdict.CONFORMS, Verdict.VIOLATION)
    assert (run.described, lane.described) == ("violation (accepted)", "violation (accepted)")
    entry = run.to_json()["lanes"][0]
    assert (run.to_json()["verdict"], entry["verdict"]) == ("violation", "violation")
    assert (entry["known_defects"], entry["accepted_defects"]) == ([DEFECT], [DEFECT])
    assert entry["reasons"] == [f"{FOUND} (known defect: {DEFECT})", f"accepted as known: {DEFECT}"]


@pytest.mark.parametrize("reason", ["another violation", "a doubt", "unknown"])
def test_any_other_reason_keeps_a_lane_from_being_accepted(run_dir: Path, reason: str) -> None:
    lane = {
        "another violation": lambda: verdict_of(run_dir, duplicate=TWICE, lost_write=Seen(1)),
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
