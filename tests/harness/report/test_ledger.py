"""The evidence ledger as a table: whole, short, left out, malformed, and verdicts that have none."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_runs as runs
from test_page import page_of

from kafka_chaos.contract import ledger as contract
from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.report.ledger import COLUMNS, Ledger, ledger_of
from kafka_chaos.verification import LaneVerdict, RunVerdict
from kafka_chaos.verification.telling import print_verdict

ENDED = contract.PartitionLedger(partition=0, log_end=499, read_to=499, end_reached=True)
KILL = contract.FaultLedger(fault_id="kill-1", kind="kill", requested_ns=1, proven_ns=2, healed_ns=3, problem=None)


def broker(broker: int, high_watermark: int | None = 500) -> contract.BrokerLedger:
    return contract.BrokerLedger(broker=broker, rows=500, first=0, last=499, high_watermark=high_watermark)


def replicas(*brokers: contract.BrokerLedger) -> contract.ReplicasLedger:
    partition = contract.ReplicaLedger(partition=0, judged_below=500, brokers=brokers)
    return contract.ReplicasLedger(replication_factor=3, partitions=(partition,))


def recovery(anomaly: str, longest: float, bound: float) -> contract.RecoveryLedger:
    derivation = f"{bound:g} s (session {bound:g} s)"
    return contract.RecoveryLedger(
        anomaly=anomaly, partition=0, longest_s=longest, bound_s=bound, derivation=derivation
    )


WHOLE = contract.Ledger(
    missing=(),
    left_out=(),
    rows=contract.RowsLedger(produced=500, consumed=500, log=500, replicas=1500),
    acknowledged=contract.AcknowledgedLedger(records=500, judged=500),
    partitions=(ENDED,),
    faults=contract.FaultsLedger(declared=("kill",), events=(KILL,)),
    replicas=replicas(*map(broker, (1, 2, 3))),
    recovery=(recovery("stalled_producer", 7.0, 9.6), recovery("isr_not_restored", 9.0, 41.0)),
    high_watermark_reports=1042,
    prediction=contract.PredictionLedger(source="prediction.json", recomputed=True, model_digest="abc"),
    observations=contract.ObservationsLedger(
        searched=True,
        reason=None,
        partitions=(contract.ObservedLedger(partition=0, states=3, complete=True, reason=None),),
    ),
)
TABLES = {
    "produced": {"files": [{"file": "produced/a.parquet", "rows": 500}], "rows_by_footer": 500, "rows_as_read": 500},
    "log": {"files": [], "rows_by_footer": 500, "rows_as_read": 490},
}


def ledger(**changes: Any) -> dict[str, Any]:
    return replace(WHOLE, **changes).to_json()


def run_with(path: Path, lanes: Mapping[str, Any], **of_verdict: Any) -> Path:
    """A run whose lanes have these ledgers, and whose verdict has these further keys."""
    judged = [
        {**runs.judged(name), **({} if its_ledger is None else {"ledger": its_ledger})}
        for name, its_ledger in lanes.items()
    ]
    run = runs.write(path / "run", [runs.lane(name) for name in lanes], judged)
    verdict = json.loads((run / "verdict.json").read_text())
    (run / "verdict.json").write_text(json.dumps({**verdict, **of_verdict}))
    return run


def read(path: Path, lanes: Mapping[str, Any], **of_verdict: Any) -> Ledger:
    found = ledger_of(read_evidence(run_with(path, lanes, **of_verdict)))
    assert found is not None
    return found


def test_a_complete_lane_is_complete_at_a_glance(tmp_path: Path) -> None:
    found = read(tmp_path, {"a": ledger()})
    (row,) = found.rows
    assert [(cell.text, cell.state) for cell in row.cells] == [
        ("500 of 500", "whole"), ("1 of 1", "whole"), ("1 of 1", "whole"),
        ("3 of 3", "whole"), ("7.0 of 9.6 s (stalled_producer)", "whole"),
        ("1,042", "whole"), ("computed again", "whole"), ("1 of 1", "whole"),
    ]  # fmt: skip
    assert len(row.cells) == len(COLUMNS)
    assert "The evidence of the lane is complete." in page_of(tmp_path / "run").text


NO_PROOF = replace(KILL, problem="not proven")


@pytest.mark.parametrize(
    ("changes", "column", "text", "state"),
    [
        ({"acknowledged": contract.AcknowledgedLedger(records=500, judged=250)}, 0, "250 of 500", "short"),
        ({"acknowledged": contract.AcknowledgedLedger(records=0, judged=0)}, 0, "0 of 0", "short"),
        ({"partitions": (ENDED, replace(ENDED, end_reached=False))}, 1, "1 of 2", "short"),
        ({"faults": contract.FaultsLedger(declared=("kill",), events=(NO_PROOF,))}, 2, "0 of 1", "short"),
        ({"faults": contract.FaultsLedger(declared=("kill",), events=())}, 2, "0 of 1", "short"),
        ({"faults": contract.FaultsLedger(declared=("kill",), events=None)}, 2, "no events", "short"),
        ({"faults": contract.FaultsLedger(declared=(), events=())}, 2, "no faults", "none"),
        ({"replicas": None}, 3, "left out", "none"),
        ({"replicas": replicas(broker(1, 0), broker(2, None))}, 3, "1 of 3", "short"),
        ({"recovery": ()}, 4, "not judged", "none"),
        ({"recovery": (recovery("isr_not_restored", 3.0, 2.0),)}, 4, "3.0 of 2.0 s (isr_not_restored)", "short"),
        ({"high_watermark_reports": 0}, 5, "0", "none"),
        ({"prediction": replace(WHOLE.prediction, recomputed=False)}, 6, "as given", "short"),
        ({"observations": None}, 7, "as for these faults", "none"),
    ],
)
def test_what_is_short_is_shown_as_short(
    tmp_path: Path, changes: Mapping[str, Any], column: int, text: str, state: str
) -> None:
    (row,) = read(tmp_path, {"a": ledger(**changes)}).rows
    assert (row.cells[column].text, row.cells[column].state) == (text, state)
    assert [cell.state for place, cell in enumerate(row.cells) if place != column] == ["whole"] * (len(COLUMNS) - 1)


def test_lanes_that_are_not_complete_are_explained_in_words(tmp_path: Path) -> None:
    short = ledger(missing=("partition 0 was read to offset 250 of 499", "fault kill-1 is not healed"))
    page = page_of(run_with(tmp_path, {"good": ledger(), "bad": short}, tables=TABLES))
    assert "1 of 2 lanes has incomplete evidence." in page.text
    assert "bad partition 0 was read to offset 250 of 499; fault kill-1 is not healed" in page.text
    assert page.row("good") != page.row("bad")
    evidence = {row[0]: row[1] for row in page.rows if len(row) == len(COLUMNS) + 2 and row[1][0] in "✓?"}
    assert (evidence["good"], evidence["bad"]) == ("✓ complete", "? incomplete")
    assert "The brokers reported 2,084 high watermarks in the whole run." in page.text
    assert "✓ produced/: 500 rows in 1 file" in page.text
    assert "? log/: 490 of 500 rows in 0 files were read" in page.text


def test_what_was_left_out_is_named_once(tmp_path: Path) -> None:
    everywhere, here = "no replicas/: replica_divergence is not judged", "no events.jsonl"
    found = read(tmp_path, {"a": ledger(left_out=(everywhere,)), "b": ledger(left_out=(everywhere, here))})
    assert found.left_out == [everywhere, f"{here} (b)"]
    assert "The evidence of all 2 lanes is complete." in page_of(tmp_path / "run").text


def test_a_verdict_without_a_ledger_still_has_a_report(tmp_path: Path) -> None:
    run = run_with(tmp_path, {"a": None})
    assert ledger_of(read_evidence(run)) is None
    assert "This verdict has no evidence ledger; an earlier version wrote it." in page_of(run).text


@pytest.mark.parametrize("odd", [None, 7, [None], {"partitions": [7]}])
def test_a_malformed_ledger_is_unknown_never_whole(tmp_path: Path, odd: object) -> None:
    everything = dict.fromkeys(ledger(), odd) | {"high_watermark_reports": "many"}
    found = read(tmp_path, {"a": everything}, tables={"produced": odd})
    (row,) = found.rows
    assert "whole" not in {cell.state for cell in row.cells}
    assert found.tables[0].state == "short"
    page_of(tmp_path / "run")


def test_the_terminal_has_a_line_for_each_lane_that_is_not_complete(capsys: pytest.CaptureFixture[str]) -> None:
    short = replace(WHOLE, missing=("half of it was not read",))
    lanes = tuple(
        LaneVerdict(name, Verdict.CONFORMS, 1, 1, 1, dict.fromkeys(Anomaly, Status.PERMITTED), {}, {}, ledger=its)
        for name, its in (("a", short), ("b", WHOLE), ("c", None))
    )
    print_verdict(RunVerdict(Path("runs/x"), Verdict.CONFORMS, lanes))
    shown = " ".join(capsys.readouterr().out.split())
    assert "a: incomplete evidence; not judged: nothing; half of it was not read" in shown
    assert shown.count("incomplete evidence") == 1
