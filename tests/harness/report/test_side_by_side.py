"""Two runs on one page: what differs in each lane, with pictures on one axis of time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import report_runs as runs
from test_browser import opened
from test_page import Page as Parsed
from test_page import full_run, series_of

from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.report.inputs.series import Series
from kafka_chaos.harness.report.page import LIMIT
from kafka_chaos.harness.report.side_by_side import Side, render
from kafka_chaos.harness.report.timeline.events import timeline_events_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def side(run: Path, series: Series) -> Side:
    evidence = read_evidence(run)
    return Side(evidence, timeline_events_of(evidence), series)


def other_run(path: Path) -> Path:
    """As `full_run`, but records are lost where they must not be, and a lane has another name."""
    return runs.write(
        path / "other",
        [runs.lane("orders", acks="all"), runs.lane("new", acks="all")],
        [runs.judged("orders", verdict="violation", found={"lost_write": (7, "forbidden")}), runs.judged("new")],
        events=runs.story("orders"),
    )


@pytest.fixture
def html(tmp_path: Path) -> str:
    sides = side(full_run(tmp_path), series_of("orders")), side(other_run(tmp_path), series_of("orders", buckets=80))
    return render(sides, [("cluster.kafka_version", "3.9.1", "4.3.1"), ("versions.<b>", "1", "2")])


def test_each_lane_has_what_differs_and_both_pictures(html: str) -> None:
    page = Parsed(html)
    assert page.open == []
    assert len(html.encode()) < LIMIT
    assert "3 of 3 lanes with another verdict; 2 settings with other values." in page.text
    assert page.row("cluster.kafka_version") == ["cluster.kafka_version", "3.9.1", "4.3.1"]
    assert page.row("versions.<b>") == ["versions.<b>", "1", "2"]
    assert page.row("verdict") == ["verdict", "✓ conforms", "✕ violation"]
    assert page.row("lost write") == ["lost write", "20 found (permitted)", "7 found (forbidden)"]
    assert page.row("duplicate")[1].startswith("1 found")
    assert "No picture" not in page.text
    assert len(set(page.values("id"))) == len(page.values("id")), "ids of the two runs' pictures differ"


def test_a_lane_that_a_run_lacks_is_shown_as_such(html: str) -> None:
    page = Parsed(html)
    verdicts = [[" ".join(cell.split()) for cell in row] for row in page.rows if row and row[0].strip() == "verdict"]
    assert ["verdict", "✓ conforms", "–"] in verdicts
    assert ["verdict", "–", "✓ conforms"] in verdicts


def test_runs_without_differences_say_so(tmp_path: Path) -> None:
    page = Parsed(render((side(full_run(tmp_path), series_of("orders")), side(full_run(tmp_path / "b"), Series())), []))
    assert "Both runs have the same settings and versions." in page.text
    assert "0 of 2 lanes with another verdict; 0 settings with other values." in page.text


@pytest.mark.browser
def test_it_opens_in_a_browser_without_an_error_and_fits_a_narrow_screen(
    browser: Browser, html: str, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(html)
    pages: Iterator[Page] = opened(browser, file, viewport={"width": 400, "height": 800})
    page = next(pages)
    assert page.locator("figure.timeline svg").count() >= 2
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    list(pages)
