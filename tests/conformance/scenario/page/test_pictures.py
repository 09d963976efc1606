"""Pictures of scenarios: complete, well-formed and small for any record, readable in light and dark."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_chaos.conformance.scenario.page.canvas import EPOCH_COLOURS
from kafka_chaos.conformance.scenario.page.frames import columns_of, slots_of, tell_columns
from kafka_chaos.conformance.scenario.page.pictures import LARGEST, draw
from kafka_chaos.conformance.scenario.record import ScenarioRecord
from tests.conformance.scenario.samples import (
    NAMES,
    act,
    look,
    planted_difference,
    replica,
    scenario_record,
    step,
    truncation,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SVG = "{http://www.w3.org/2000/svg}"


def parsed(record: ScenarioRecord) -> Element:
    return ElementTree.fromstring(draw(record))


def blocks(picture: Element) -> list[Element]:
    """The replicas' blocks in drawing order: column by column within each row."""
    shared = {one.get("id"): one for one in picture.find(f"{SVG}defs") or ()}
    used = [shared[(use.get("href") or "")[1:]] for use in picture.findall(f"{SVG}use")]
    frames = {"leader", "follower", "down", "differs"}
    return [one for one in used if (first := one.find(f"{SVG}rect")) is not None and first.get("class") in frames]


def frame(block: Element) -> str | None:
    rectangle = block.find(f"{SVG}rect")
    return None if rectangle is None else rectangle.get("class")


def words(picture: Element, block: Element) -> list[str]:
    """The texts of a block, those of the cells it uses included."""
    shared = {one.get("id"): one for one in picture.find(f"{SVG}defs") or ()}
    parts = [block, *(shared[(use.get("href") or "")[1:]] for use in block.findall(f"{SVG}use"))]
    return [text.text or "" for part in parts for text in part.findall(f"{SVG}text")]


def test_columns_are_the_steps_that_changed_something() -> None:
    (played,) = truncation().acts
    columns = columns_of(played)
    assert [column.number for column in columns] == [1, 3, 4, 5]
    assert [number for column in columns for number, _ in column.sentences] == [0, 1, 2, 3, 4, 5]
    assert columns[-1].cells[1].gone == ((1, "M2", 0),)
    assert not columns[-1].cells[2].gone
    assert columns[-1].partition == "leader 2, epoch 1; ISR 1 2 3"


def test_sentences_after_the_last_change_stand_with_it() -> None:
    record = truncation()
    (played,) = record.acts
    played.steps.append(step(6, "Every broker knows.", played.steps[-1].observation))
    last = columns_of(played)[-1]
    assert (last.number, last.sentences) == (5, ((5, "X is restarted."), (6, "Every broker knows.")))


def test_leaders_the_dead_the_dropped_and_high_watermarks_are_marked() -> None:
    picture = parsed(truncation())
    drawn = blocks(picture)
    assert [frame(block) for block in drawn] == [
        *("leader", "leader", "down", "follower"),
        *("follower", "follower", "leader", "leader"),
        *("follower", "follower", "follower", "follower"),
    ]
    assert words(picture, drawn[2]) == ["not running", "M1", "0", "M2", "0"]
    assert words(picture, drawn[3]) == ["M1", "0", "M3", "1", "M2"]
    assert words(picture, drawn[6]) == ["leader", "M1", "0", "M3", "1"]
    ghosts = [one for one in picture.iter(f"{SVG}rect") if one.get("class") == "gone"]
    assert len(ghosts) == 1
    assert all(len([p for p in block.findall(f"{SVG}path") if p.get("class") == "line"]) == 1 for block in drawn)


def test_the_high_watermark_stands_before_the_first_record_that_it_does_not_cover() -> None:
    def at(known: int) -> float:
        logs = {1: replica("a·0", "b·0", role="leader", high_watermark=known)}
        picture = parsed(scenario_record(act(step(0, "Observed.", look(logs)))))
        (block,) = blocks(picture)
        line = next(path for path in block.findall(f"{SVG}path") if path.get("class") == "line")
        return float((line.get("d") or "").split()[0][1:])

    places = [at(0), at(1), at(2)]
    assert places == sorted(set(places))
    assert places[2] - places[1] == pytest.approx(places[1] - places[0], abs=1)


def test_two_views_of_the_leader_are_shown() -> None:
    reported = {1: replica("m·0", leader=2), 2: replica("m·0", leader=1), 3: replica("m·0", leader=0)}
    seen = look(reported, leader=2, epoch=1)
    played = act(step(0, "The leader is moved to Y, which does not learn of it.", seen), step(1, "Nothing.", seen))
    picture = parsed(scenario_record(played))
    shown = [words(picture, block)[0] for block in blocks(picture)]
    assert shown == ["m", "follower, sees leader 1", "follower, sees no leader"]
    (line,) = tell_columns(played, columns_of(played))
    assert "Y (broker 2) sees leader 1: m (epoch 0)" in line


def test_a_replica_that_differs_is_framed() -> None:
    assert [frame(block) for block in blocks(parsed(planted_difference()))].count("differs") == 1


def test_records_that_come_and_go_together_share_a_place() -> None:
    many = [f"r{number}·0" for number in range(100)]
    steps = [
        step(0, "100 records.", look({1: replica(*many, role="leader"), 2: replica(*many)})),
        step(1, "One more.", look({1: replica(*many, "last·1", role="leader"), 2: replica(*many)})),
    ]
    columns = columns_of(act(*steps))
    assert [(slot.start, slot.end) for slot in slots_of(columns, most=12)] == [(0, 99), (100, 100)]
    picture = parsed(scenario_record(act(*steps)))
    assert words(picture, blocks(picture)[1]) == ["leader", "r0…r99", "0", "last", "1"]


def test_of_too_many_places_the_first_are_joined() -> None:
    steps = [
        step(n, f"r{n}.", look({1: replica(*(f"r{k}·0" for k in range(n + 1)), role="leader")})) for n in range(30)
    ]
    slots = slots_of(columns_of(act(*steps)), most=12)
    assert len(slots) == 12
    assert (slots[0].start, slots[0].end, slots[1].start, slots[-1].end) == (0, 18, 19, 29)


def test_holes_stay_holes() -> None:
    before = replica("a·0", "b·0", "c·0", role="leader")
    assert before.log is not None
    from dataclasses import replace

    after = replace(before, log=(before.log[0], before.log[2]))
    columns = columns_of(act(step(0, "Three.", look({1: before})), step(1, "Compacted.", look({1: after}))))
    assert columns[1].cells[1].gone == ((1, "b", 0),)
    assert [slot.start for slot in slots_of(columns, most=12)] == [0, 1, 2]


def test_it_has_a_title_and_says_in_words_what_it_shows() -> None:
    picture = parsed(truncation())
    assert picture.get("role") == "img"
    assert picture.get("aria-labelledby") == "title desc"
    title, description = picture.find(f"{SVG}title"), picture.find(f"{SVG}desc")
    assert title is not None
    assert title.text == "acks-1-recovery: An acknowledged record is lost"
    assert description is not None
    assert "5. X is restarted. X (broker 1) drops M2 (epoch 0): M1 (epoch 0) M3 (epoch 1), high watermark 2." in (
        description.text or ""
    )


def test_told_in_words_only_what_changed() -> None:
    (played,) = truncation().acts
    reported = tell_columns(played, columns_of(played))
    assert reported[1].startswith(
        "2. Y's and Z's fetches no longer reach X. 3. A producer sends M2 with acks=1. X (broker 1) leads:"
    )
    assert "Y (broker 2)" not in reported[1]
    assert "X (broker 1) does not run: M1 (epoch 0) M2 (epoch 0), high watermark 1." in reported[2]


def test_records_of_a_log_without_leader_epochs_have_none() -> None:
    led, other = replica("m·-1", role="leader"), replica("m·-1")
    played = act(step(0, "Before leader epochs.", look({1: led, 2: other, 3: other})))
    (line,) = tell_columns(played, columns_of(played))
    assert "X (broker 1) leads: m, high watermark 1." in line
    drawn = draw(scenario_record(played))
    assert "no epoch" in drawn
    assert not re.search(r">\s*-1\s*<|epoch -1", drawn)


def test_it_loads_nothing() -> None:
    text = draw(truncation())
    assert set(re.findall(r'(?:href|src)="([^"]?)', text)) == {"#"}
    assert not re.search(r"url\(|@import|<script|<image|<foreignObject|on\w+=", text)


def test_equal_records_give_equal_pictures() -> None:
    assert draw(truncation()) == draw(truncation())


@settings(max_examples=40)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.text(max_size=200), st.text(max_size=20))
def test_it_is_well_formed_whatever_things_are_called(records: list[str], sentence: str, name: str) -> None:
    seen = look({1: replica(*(f"{record}·3" for record in records), role="leader")})
    played = act(step(0, sentence, seen), name=name)
    played.names = {1: name}
    ElementTree.fromstring(draw(scenario_record(played, name="any")))


def monster(acts: int, steps: int, records: int) -> ScenarioRecord:
    """Every replica's log changes at every step, and no two records share an epoch."""

    def log(act_number: int, number: int, broker: int) -> list[str]:
        return [f"record-{act_number}-{number}-{broker}-{k}·{k + number}" for k in range(records)]

    played = []
    for act_number in range(acts):
        taken = [
            step(
                number,
                f"Step {number} of many, in a sentence that is rather long. " * 3,
                look({b: replica(*log(act_number, number, b), role="leader" if b == 1 else "follower") for b in NAMES}),
            )
            for number in range(steps)
        ]
        played.append(act(*taken, name=f"act {act_number}"))
    return scenario_record(*played)


@pytest.mark.parametrize(("acts", "steps", "records"), [(1, 40, 30), (30, 4, 3), (8, 16, 12)])
def test_it_stays_small_and_counts_what_it_leaves_out(acts: int, steps: int, records: int) -> None:
    text = draw(monster(acts, steps, records))
    assert len(text.encode()) < LARGEST
    ElementTree.fromstring(text)
    assert "are not drawn" in text


def test_nothing_to_draw_is_said() -> None:
    assert "no replica was observed" in draw(scenario_record(act()))
    ElementTree.fromstring(draw(scenario_record()))


@pytest.mark.parametrize(("side", "ink"), [(0, "#1b1d21"), (1, "#eceded")])
def test_names_stand_out_from_the_colour_of_their_epoch(side: int, ink: str) -> None:
    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))

    for colours in EPOCH_COLOURS:
        low, high = sorted((light(colours[side]), light(ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, colours
    assert len({colours[side] for colours in EPOCH_COLOURS}) == len(EPOCH_COLOURS)


@pytest.mark.browser
def test_in_a_browser_nothing_runs_over_the_edge_or_over_its_neighbour(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "picture.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{draw(truncation())}{draw(monster(1, 6, 4))}</body>")
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    page = context.new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("request", lambda request: troubles.append(request.url))
    page.goto(file.as_uri())
    found = page.evaluate(_EDGES)
    context.close()
    assert troubles == [file.as_uri()]
    assert len(found) == 2
    for picture in found:
        assert len(picture["texts"]) > 10
        rows: dict[int, list[tuple[float, float, str]]] = {}
        for text, left, right, bottom in picture["texts"]:
            assert right <= picture["right"] + 1, text
            assert bottom <= picture["bottom"] + 1, text
            rows.setdefault(round(bottom), []).append((left, right, text))
        for row in rows.values():
            for (_, end, text), (start, _, after) in itertools.pairwise(sorted(row)):
                assert end <= start + 1, (text, after)


_EDGES = """() => [...document.querySelectorAll("svg")].map((svg) => {
  const box = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll(":scope > text")].map((text) => {
    const own = text.getBoundingClientRect();
    return [text.textContent, own.left, own.right, own.bottom];
  });
  return {right: box.right, bottom: box.bottom, texts};
})"""
