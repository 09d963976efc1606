"""The report in a real browser: Debian's Chromium, driven by Playwright, never a downloaded one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from activity_runs import S
from test_activity import active
from test_page import full_run, series_of
from test_stories import told_run

from kafka_chaos.harness.report import write_report
from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.report.report_page import render
from kafka_chaos.harness.report.timeline.events import MemberChange, Offsets, timeline_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full report of two lanes of different phases; the second one is a violation."""
    run = full_run(tmp_path_factory.mktemp("report"))
    verdict = run / "verdict.json"
    text = verdict.read_text()
    place = text.index('"lane": "safe", "verdict": "conforms"')
    verdict.write_text(text[:place] + text[place:].replace('"conforms"', '"violation"', 1))
    evidence = read_evidence(run)
    file = run / "report.html"
    activity = active()
    series = replace(series_of("orders"), transactions=activity.transactions, groups=activity.groups)
    changes = [MemberChange(second * S, str(second), "crashes") for second in (2, 2, 3, 10)]
    known = {"orders": {0: [Offsets(2 * S, 9, 4), Offsets(9 * S, 1_000_000, 4)]}}
    events = replace(timeline_of(evidence), members={"orders-group": changes}, offsets=known)
    file.write_text(render(evidence, events, series))
    return file


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    yield from opened(browser, report)


def opened(browser: Browser, report: Path, **settings: object) -> Iterator[Page]:
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})  # type: ignore[arg-type]
    page = context.new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url))
    page.goto(report.as_uri())
    yield page
    context.close()
    assert [trouble for trouble in troubles if not trouble.startswith("data:")] == [report.as_uri()]


def shown(page: Page) -> list[str]:
    rows = page.locator(".matrix tr[data-lane]").all()
    return [row.get_attribute("data-lane") or "" for row in rows if row.is_visible()]


def test_filters_by_phase_verdict_and_lane(page: Page) -> None:
    assert shown(page) == ["orders", "safe"]
    page.locator("#filter-phase").select_option("load")
    assert shown(page) == ["orders"]
    assert page.locator("#filter-count").inner_text() == "1 of 2 lanes"
    page.locator("#filter-phase").select_option("")
    page.locator("#filter-verdict").select_option("violation")
    assert shown(page) == ["safe"]
    assert page.locator("figure.timeline").first.is_hidden()
    page.locator("#filter-verdict").select_option("")
    page.locator("#filter-lane").fill("ORD")
    assert shown(page) == ["orders"]
    assert page.locator("figure.timeline").first.is_visible()
    page.locator("#filter-lane").fill("no such lane")
    assert shown(page) == []
    assert page.locator("#filter-count").inner_text() == "0 of 2 lanes"


def test_all_anomalies_can_be_shown(page: Page) -> None:
    headings = page.locator(".matrix thead th:visible")
    assert headings.all_inner_texts() == ["Lane", "Verdict", "lost write", "duplicate"]
    page.get_by_label("Show all 14 anomalies").check()
    assert headings.count() == 16


def test_works_without_script(browser: Browser, report: Path) -> None:
    for page in opened(browser, report, java_script_enabled=False):
        assert shown(page) == ["orders", "safe"]
        assert page.locator(".matrix thead th:visible").count() == 16
        assert page.locator(".filters").is_hidden()


def test_can_be_used_by_keyboard(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#matrix"
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        outlined = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outlined != "none" or page.evaluate("document.activeElement === document.body")
    assert "all-columns" in seen
    assert "SUMMARY" in seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, report: Path, scheme: str) -> None:
    for page in opened(browser, report, color_scheme=scheme):
        ratios = page.evaluate(_CONTRASTS)
        assert len(ratios) > 40
        assert not [(text, ratio) for text, ratio in ratios if ratio < 4.5]


def test_fits_a_narrow_screen(browser: Browser, report: Path) -> None:
    for page in opened(browser, report, viewport={"width": 360, "height": 800}):
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [360, 1280])
def test_what_scrolls_sideways_says_so(browser: Browser, report: Path, width: int) -> None:
    for page in opened(browser, report, viewport={"width": width, "height": 800}):
        # The page marks what scrolls once it has drawn it.
        page.wait_for_function(f"({_SCROLLERS})().every(([scrolls, hinted]) => scrolls === hinted)")
        regions = page.evaluate(_SCROLLERS)
        assert len(regions) > 4
        assert all(hinted == scrolls for scrolls, hinted in regions)
        assert any(scrolls for scrolls, _ in regions) == (width < 720)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_finding_opens_by_its_link_and_fits(browser: Browser, tmp_path: Path, width: int) -> None:
    told = write_report(told_run(tmp_path))
    for page in opened(browser, told, viewport={"width": width, "height": 800}, color_scheme="dark"):
        finding = page.locator("details.finding").first
        assert not finding.locator(".moments").first.is_visible()
        page.locator('.matrix a[href="#finding-orders-lost_write"]').click()
        page.locator("details.finding[open]").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not [(text, ratio) for text, ratio in page.evaluate(_CONTRASTS) if ratio < 4.5]
        page.evaluate("location.hash = ''; document.querySelector('details.finding').open = false")
        page.evaluate("location.hash = 'finding-orders-lost_write-1'")
        page.locator("details.finding[open]").first.wait_for()


def test_no_label_exceeds_its_picture(page: Page) -> None:
    labels = page.evaluate(_LABELS)
    assert len(labels) > 20
    assert not [label for label in labels if label[1] < label[3] - 0.5 or label[2] > label[4] + 0.5]


_SCROLLERS = """() => [...document.querySelectorAll(".scroll")].filter((one) => one.checkVisibility()).map((one) => {
  const hint = getComputedStyle(one, "::before");
  return [one.scrollWidth > one.clientWidth, hint.content.includes("scroll sideways") && hint.display !== "none"];
})"""

_LABELS = """() => [...document.querySelectorAll("figure svg")].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].map((text) => {
    const box = text.getBoundingClientRect();
    return [text.textContent, box.left, box.right, frame.left, frame.right];
  });
})"""

_CONTRASTS = """() => {
  const parse = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.closest(".symbol, option, select, .unseen")) continue;
    const style = getComputedStyle(element);
    const [ink, paper] = [parse(element.closest("svg") ? style.fill : style.color), ground(element)];
    const [a, b] = [light(ink), light(paper)];
    found.push([element.textContent.trim().slice(0, 40), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]);
  }
  return found;
}"""
