"""A scenario as one SVG picture: logs as cells per replica over the steps.

Guarantee: well-formed whatever the records are called, below `LARGEST` bytes for a record of any size (what is left
out is counted), loads nothing, has a title and a description, and brings its own ground for light and dark.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from kafka_chaos.conformance.scenario.page.canvas import EPOCH_COLOURS, Canvas, box, path, text
from kafka_chaos.conformance.scenario.page.frames import (
    Cell,
    Column,
    Entry,
    Slot,
    columns_of,
    printable,
    replica_name,
    slots_of,
    tell_belief,
    tell_columns,
)
from kafka_chaos.conformance.scenario.record import PARTITIONS, REPLICAS, ActRecord, ScenarioRecord
from kafka_chaos.harness.report.svg import trim
from kafka_chaos.reference_model.lockstep.observation.cluster import NO_EPOCH

LARGEST = 60_000
_DETAILS = ((12, 200, 99), (8, 40, 24), (6, 24, 8), (5, 12, 4), (4, 6, 2))
"""Most slots of a log, columns of an act and acts of a picture; the first that keeps below `LARGEST` is taken."""
_LONGEST_DESCRIPTION = 6000
_WIDEST, _LEAST_WIDE, _MARGIN, _LABELS, _GAP = 1000, 640, 14, 92, 8
_NARROWEST = {REPLICAS: 136, PARTITIONS: 172}
_STRIP, _CELL, _GHOST, _LINE = 22, 20, 18, 13

_Signs = Sequence[tuple[str, Sequence[tuple[str, str]]]]

_MARKS = (
    ("high watermark", (("line", "M7 2v13"), ("flag", "M3 0h8l-4 5z"))),
    ("leader", (("crown", "M0 13V4l3.5 3 3.5-5 3.5 5L14 4v9z"),)),
    ("dropped at this step", (("struck", "M0 8h14"),)),
)
"""The signs of a legend, each with its paths by style."""
_MARKS_OF_PARTITIONS = (("last stable offset", _MARKS[0][1]),)


@dataclass(frozen=True, slots=True)
class _Panel:
    """An act laid out: its columns, its slots with left edge and width within a block, the blocks' width."""

    act: ActRecord
    columns: list[Column]
    left_out: int
    slots: list[Slot]
    places: list[tuple[float, float]]
    width: float

    @property
    def per_line(self) -> int:
        """Columns that fit beside each other."""
        return max(1, int((_WIDEST - 2 * _MARGIN - _LABELS) // (self.width + _GAP)))


def draw(record: ScenarioRecord) -> str:
    """The picture of a scenario's run, as the text of an SVG file."""
    picture = ""
    for slots, columns, acts in _DETAILS:
        panels = [_panel(act, slots, columns) for act in record.acts[:acts]]
        picture = _draw(record, panels)
        if len(picture.encode()) < LARGEST:
            break
    return picture


def _draw(record: ScenarioRecord, panels: Sequence[_Panel]) -> str:
    described = "\n".join(f"{one.act.name}: {' '.join(tell_columns(one.act, one.columns))}" for one in panels)
    description = textwrap.shorten(described, _LONGEST_DESCRIPTION, placeholder=" …")
    canvas = Canvas(f"{record.scenario}: {record.title}", description)
    epochs = sorted({entry[2] for panel in panels for entry in _entries(panel.columns)})
    colours = {epoch: f"e{place % len(EPOCH_COLOURS)}" for place, epoch in enumerate(epochs)}
    kinds = {panel.act.kind for panel in panels}
    y = _draw_legend(canvas, colours, _MARKS_OF_PARTITIONS if kinds == {PARTITIONS} else _MARKS)
    width = float(_LEAST_WIDE)
    for panel in panels:
        y += 28
        canvas.text(_MARGIN, y, panel.act.name, "heading")
        for start in range(0, len(panel.columns), panel.per_line):
            line = panel.columns[start : start + panel.per_line]
            y = _draw_line(canvas, panel, line, colours, y + 8)
            width = max(width, _MARGIN + _LABELS + len(line) * (panel.width + _GAP) - _GAP)
        if panel.left_out or not panel.columns:
            y += 18
            left_out = f"{panel.left_out} further changes are not drawn"
            canvas.text(_MARGIN, y, left_out if panel.left_out else "no replica was observed", "soft")
    if len(record.acts) > len(panels):
        y += 24
        canvas.text(_MARGIN, y, f"{len(record.acts) - len(panels)} further acts are not drawn", "soft")
    return canvas.finish(width + _MARGIN, y + _MARGIN)


def _panel(act: ActRecord, most_slots: int, most_columns: int) -> _Panel:
    found = columns_of(act)
    columns = found[:most_columns]
    slots = slots_of(columns, most=most_slots)
    places, x = [], 7.0
    for slot in slots:
        labels = [_label(slot, log) for cell in _cells(columns) for log in (cell.log, cell.gone) if slot.entries(log)]
        width = min(84.0, max(26.0, 6.2 * max(map(len, labels), default=1) + 15))
        places.append((x, width))
        x += width + 2
    return _Panel(act, columns, len(found) - len(columns), slots, places, max(_NARROWEST[act.kind], x + 7))


def _draw_line(canvas: Canvas, panel: _Panel, line: Sequence[Column], colours: Mapping[int, str], y: float) -> float:
    """Columns beside each other: sentences, a row per replica, the partition itself. Returns the lower edge."""
    headings = [_heading(column, int((panel.width - 4) / 5.5)) for column in line]
    deepest = max(map(len, headings), default=0)
    lefts = [_MARGIN + _LABELS + place * (panel.width + _GAP) for place in range(len(line))]
    for left, heading in zip(lefts, headings, strict=True):
        for row, (words, style) in enumerate(heading):
            canvas.text(left + 2, y + (deepest - len(heading) + row + 1) * _LINE, words, style)
    y += deepest * _LINE + 7
    for broker in dict.fromkeys(broker for column in line for broker in column.cells):
        deep = any(column.cells[broker].gone for column in line if broker in column.cells)
        height = _STRIP + _CELL + 6 + (_GHOST if deep else 0)
        name = textwrap.shorten(printable(replica_name(panel.act, broker)), 17, placeholder="…")
        canvas.text(_MARGIN, y + _STRIP + 14, name, "small")
        for left, column in zip(lefts, line, strict=True):
            if broker in column.cells:
                cell = column.cells[broker]
                key = (cell, height, tuple(panel.slots), tuple(panel.places), panel.width)
                canvas.place(key, partial(_block, canvas, panel, cell, colours, height), left, y)
        y += height + 5
    for left, column in zip(lefts, line, strict=True):
        for row, words in enumerate(column.partition.split("; ")):
            canvas.text(left + 2, y + 9 + 12 * row, words, "tiny")
    return y + 3 + 12 * max(2, *(column.partition.count("; ") + 1 for column in line))


def _heading(column: Column, letters: int) -> list[tuple[str, str]]:
    """The sentences in lines; those of steps that changed nothing are softer."""
    lines = []
    for step, sentence in column.sentences:
        style = "small" if step == column.number else "soft"
        wrapped = textwrap.wrap(f"{step}. {printable(sentence)}", letters, max_lines=5, placeholder=" …")
        lines += [(words, style) for words in wrapped]
    return lines


def _block(canvas: Canvas, panel: _Panel, cell: Cell, colours: Mapping[int, str], height: float) -> list[Markup]:
    """A replica after a step: its role above, its log, and below what fell out of it."""
    frame = "differs" if cell.differs else "leader" if cell.leads else "follower" if cell.runs else "down"
    block = [box(frame, 0, 0, panel.width, height)]
    role = cell.role if cell.runs else "not running"
    if cell.leads:
        block.append(path("crown", "M7 12V5l3 3 3-4 3 4 3-3v7z"))
    if cell.believes is not None:
        role = f"{role}, {tell_belief(cell.believes)}"
    if cell.given is not None:
        role = f"read_committed: {textwrap.shorten(' '.join(cell.given), 24, placeholder=' …') or 'nothing'}"
    if role and role != "follower":
        block.append(text(23 if cell.leads else 7, 12, role, "tiny"))
    for slot, (x, width) in zip(panel.slots, panel.places, strict=True):
        if entries := slot.entries(cell.log):
            face = (_label(slot, entries), entries[-1][2], width)
            style = None if cell.runs else "faded"
            block.append(canvas.use((*face, style), partial(_record, *face, colours), x, _STRIP, style=style))
        if entries := slot.entries(cell.gone):
            gone = (_label(slot, entries), width)
            block.append(canvas.use(gone, partial(_ghost, *gone), x, _STRIP + _CELL + 4))
    if cell.log and cell.high_watermark is not None:
        x = _watermark(panel, cell.high_watermark)
        block.append(path("line", f"M{trim(x)} {_STRIP - 4}v{_CELL + 7}"))
        block.append(path("flag", f"M{trim(x - 4)} {_STRIP - 8}h8l-4 5z"))
    return block


def _record(label: str, epoch: int, width: float, colours: Mapping[int, str]) -> list[Markup]:
    """A record, or several that share a place, with the leader epoch of the last."""
    name = text((width - 6) / 2, 14, label, "name")
    return [
        box(colours[epoch], 0, 0, width, _CELL),
        name,
        text(width - 7, 15, "" if epoch == NO_EPOCH else str(epoch), "epoch"),
    ]


def _ghost(label: str, width: float) -> list[Markup]:
    """Records that fell out of the log."""
    struck = path("struck", f"M2 {(_GHOST - 4) // 2}h{trim(width - 4)}")
    return [box("gone", 0, 0, width, _GHOST - 4), text(width / 2, 11, label, "name"), struck]


def _watermark(panel: _Panel, offset: int) -> float:
    """The position of a high watermark in a block: before the first record that it does not cover."""
    x = panel.places[0][0] - 1
    for slot, (left, width) in zip(panel.slots, panel.places, strict=True):
        if offset <= slot.start:
            break
        x = left + min(1.0, (offset - slot.start) / (slot.end - slot.start + 1)) * (width + 1)
    return x


def _label(slot: Slot, log: Sequence[Entry]) -> str:
    """The text in a slot's cell: a record's name, or the first and the last of several."""
    names = [_short(printable(record)) for _, record, _ in slot.entries(log)]
    if len(names) == 1:
        return names[0]
    return f"{names[0]}…{names[-1]}" if len(names[0]) + len(names[-1]) <= 10 else f"{len(names)} records"


def _short(name: str) -> str:
    return name if len(name) <= 9 else f"{name[:8]}…"


def _draw_legend(canvas: Canvas, colours: Mapping[int, str], signs: _Signs) -> float:
    """What the marks mean; returns the lower edge."""
    epochs = [*colours.items()][: len(EPOCH_COLOURS)]
    marks = {
        "no epoch" if epoch == NO_EPOCH else f"epoch {epoch}": [box(colour, 0, 0, 14, 14)] for epoch, colour in epochs
    }
    marks |= {label: [path(*one) for one in paths] for label, paths in signs}
    x, y = float(_MARGIN), float(_MARGIN)
    for label, mark in marks.items():
        wide = 19 + 6 * len(label) + 16
        if x + wide > _LEAST_WIDE:
            x, y = float(_MARGIN), y + 20
        canvas.place(("legend", label), mark.copy, x, y)
        canvas.text(x + 19, y + 11, label, "soft")
        x += wide
    return y + 14


def _cells(columns: Sequence[Column]) -> list[Cell]:
    return [cell for column in columns for cell in column.cells.values()]


def _entries(columns: Sequence[Column]) -> list[Entry]:
    return [entry for cell in _cells(columns) for entry in (*cell.log, *cell.gone)]
