from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.harness.atlas.cells import PAGE, TABLE, cells_of, write_pages
from tests.reference_model.forecast.lanes import STRICT, lane_run


def test_runs_are_counted_by_cell() -> None:
    cells = cells_of([lane_run(4, gap_s=3.0), lane_run(gap_s=7.0), lane_run(gap_s=None), lane_run(faults="pause")])
    assert [(cell.cell.faults, cell.count) for cell in cells] == [("kill", 3), ("pause", 1)]
    assert str(cells[0].shares["losses"]) == "in 1 of 3 (6% – 79%), up to 4"
    assert cells[0].gaps == (3.0, 5.0, 7.0)


def test_a_run_that_did_not_judge_an_anomaly_does_not_count_for_it() -> None:
    (cell,) = cells_of([lane_run(not_judged=["lost_write"])])
    assert str(cell.shares["losses"]) == "not judged"
    assert str(cell.shares["duplicates"]) == "in none of 1 (0% – 79%)"


def test_the_worst_run_has_the_gravest_verdict() -> None:
    (cell,) = cells_of(
        [lane_run(90, run="most"), lane_run(1, run="broken", verdict="violation"), lane_run(verdict="unknown")]
    )
    assert (cell.verdict, cell.worst.run) == (Verdict.VIOLATION, "broken")


def test_the_page_names_every_cell_and_links_the_worst_run(tmp_path: Path) -> None:
    report = tmp_path / "run-1" / "report.html"
    report.parent.mkdir()
    report.touch()
    lost = lane_run(4, found={"lost_write": 4, "phantom": 1}, report=str(report))
    cells = cells_of([lost, lane_run(client="<java>", settings=STRICT, report=str(tmp_path / "gone.html"))])
    write_pages(cells, tmp_path, untried=5)
    page = (tmp_path / PAGE).read_text()
    assert 'href="run-1/report.html"' in page
    assert "gone.html" not in page
    assert "&lt;java&gt;" in page
    assert "phantom in 1 of 1" in page
    assert "5 combinations of the plan have no run yet" in page


def test_the_page_of_an_empty_record_says_so(tmp_path: Path) -> None:
    write_pages([], tmp_path)
    assert "The record has no run yet." in (tmp_path / PAGE).read_text()
    assert pq.read_table(tmp_path / TABLE).num_rows == 0


def test_the_table_has_the_same_cells(tmp_path: Path) -> None:
    write_pages(cells_of([lane_run(4), lane_run(settings=STRICT)]), tmp_path)
    rows = pq.read_table(tmp_path / TABLE).to_pylist()
    assert [row["runs"] for row in rows] == [1, 1]
    losses = {row["lane"]: row["anomalies"][0]["hits"] for row in rows}
    assert losses == {'{"acks":"1"}': 1, STRICT: 0}


def test_settings_are_those_of_lanes_on_the_cells_cluster() -> None:
    """Eligible leader replicas are refused in lanes of older brokers."""
    (cell,) = cells_of([lane_run(cluster="4.3.1/kraft", settings='{"elr":true}')])
    assert cell.settings == "acks=all · min ISR 1 · 3 replicas"
