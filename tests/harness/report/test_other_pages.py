"""The trend and the list of runs in a real browser: nothing loaded, readable in light and dark, by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_browser import _CONTRASTS, opened

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.harness.cli.serve import index
from tests.harness.cli.test_runs_command import make
from tests.harness.nightly.test_nightly_run import Runs, nightly_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("pages")
    for number, losses in enumerate(([0, 3, 0], [7, 0, 9])):
        nightly_run = nightly_of(root, Runs(losses, Status.FORBIDDEN), repeats=3)
        nightly_run.name = f"2026010{number + 1}-000000"
        nightly_run.folder = nightly_run.out / nightly_run.name
        nightly_run.run()
    make(root / "runs", 1, lost=7)
    make(root / "runs", 2, lost=1234)
    listed = root / "runs.html"
    listed.write_text(index(root / "runs"))
    return {"trend": root / "out" / "trend.html", "runs": listed}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["trend", "runs"])
def test_text_stands_out_from_its_ground(browser: Browser, pages: dict[str, Path], name: str, scheme: str) -> None:
    for page in opened(browser, pages[name], color_scheme=scheme):
        ratios = page.evaluate(_CONTRASTS)
        assert len(ratios) > 15
        assert not [(text, ratio) for text, ratio in ratios if ratio < 4.5]


@pytest.fixture(params=["trend", "runs"])
def narrow(request: pytest.FixtureRequest, browser: Browser, pages: dict[str, Path]) -> Iterator[object]:
    yield from opened(browser, pages[request.param], viewport={"width": 360, "height": 800})


def test_a_narrow_screen_scrolls_the_tables_not_the_page(narrow: object) -> None:
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 360  # type: ignore[attr-defined]


def test_every_picture_of_the_trend_has_a_name(browser: Browser, pages: dict[str, Path]) -> None:
    for page in opened(browser, pages["trend"]):
        pictures = page.get_by_role("img")
        assert pictures.count() == 1
        assert pictures.first.get_attribute("aria-label") == "a, one: lost_write, share of runs in 2 nightly runs"
        assert page.get_by_role("table", name="Nightly runs, the latest first").count() == 1
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
