import itertools
import json
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_runs as runs

from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.report.inputs.series import Bucket, ErrorCount, FindingRange, Gap, LaneSeries, Series
from kafka_chaos.harness.report.report_page import LIMIT, render
from kafka_chaos.harness.report.timeline.events import timeline_of

S = runs.SECOND
_VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects rows, ids, references and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"style", "script"}:
            return
        self.text += data
        if self.rows and self.rows[-1] and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def row(self, start: str) -> list[str]:
        cells = [[" ".join(cell.split()) for cell in row] for row in self.rows]
        return next(row for row in cells if row and row[0].startswith(start))

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(attribute))]


def series_of(name: str) -> Series:
    filled = [Bucket(index, 100, 0, 0, 2_000_000, 9_000_000, 11_000_000) for index in range(50) if index % 10]
    filled[3] = Bucket(filled[3].index, 10, 2, 5, 2_000_000, 9_000_000, 12_000_000)
    lane = LaneSeries(
        start_ns=1 * S,
        width_ns=200_000_000,
        buckets=tuple(filled),
        gaps=(Gap(3 * S, 5 * S),),
        longest_gap_ns=2 * S,
        errors=(ErrorCount("info", "Local: Message timed out", 5),),
    )
    lost = FindingRange(name, "lost_write", 0, None, 40, 59, 20, "truncation: broker 1 dropped offsets 40 to 59")
    doubled = FindingRange(name, "duplicate", 0, None, 70, 70, 1, "unobserved: first at partition 0, offset 65")
    unplaced = FindingRange(name, "lost_write", None, 3, 7, 9, 3)
    return Series(lanes={name: lane}, ranges=[lost, doubled, unplaced], ends={(name, 0): 99})


def full_run(path: Path, name: str = "orders") -> Path:
    why = ["Broker 1 acknowledges record 0.", "Broker 1 is killed."]
    return runs.write(
        path / "run",
        [runs.lane(name), runs.lane("safe", acks="all")],
        [
            runs.judged(name, found={"lost_write": (20, "permitted"), "duplicate": (1, "permitted")}),
            runs.judged("safe"),
        ],
        prediction={name: {"anomalies": {"lost_write": {"status": "permitted", "why": why}}}},
        experiment=json.dumps({"name": "demo", "seed": 42, "recorded": {"versions": {"kafka": "3.9.1"}}}),
        events=runs.story(name),
    )


def page_of(run: Path, series: Series | None = None) -> Page:
    evidence = read_evidence(run)
    return Page(render(evidence, timeline_of(evidence), series or Series()))


def test_shows_each_part_in_order_and_explains_a_lane_before_the_first_one_is_named(tmp_path: Path) -> None:
    page = page_of(full_run(tmp_path), series_of("orders"))
    parts = [
        "Conforms", "Lost write: 20 in orders, where it is permitted.", "Predicted against observed", "Lane by lane",
        "seconds since its phase began", "pause broker-1 · 5.0 s", "Where in the log", "Why the model says so",
        "Broker 1 is killed.", "Configuration and versions", "kafka-chaos run", "kafka-chaos verify",
    ]  # fmt: skip
    places = [page.text.index(part) for part in parts]
    assert places == sorted(places)
    assert page.text.index("A lane is one topic together with one producer configuration.") < page.text.index("orders")


def test_lanes_are_summed_up_and_losses_traced_to_the_epoch_that_dropped_them(tmp_path: Path) -> None:
    page = page_of(full_run(tmp_path), series_of("orders"))
    summary = [row for row in page.rows if row and row[0] == "orders" and len(row) == 10]
    assert [" ".join(cell.split()) for cell in summary[0]] == [
        "orders", "not known", "100", "100", "2 / 5", "20", "1", "not recorded", "2.0 s", "✓ conforms",
    ]  # fmt: skip
    assert page.row("safe")[0].startswith("safe")
    lost = "First case: truncation: broker 1 dropped offsets 40 to 59."
    assert page.row("lost write")[1:4] == ["offset 40 to 59", "20", lost]
    doubled = "First case: unobserved: first at partition 0, offset 65."
    assert page.row("duplicate")[1:] == ["offset 70", "1", doubled]
    assert "seq 7 to 9" in page.text
    assert "For the first case, no cause is recorded." in page.text


def test_clients_stand_side_by_side_where_lanes_have_several(tmp_path: Path) -> None:
    started = {"ts_ns": 1, "type": "client_started", "role": "producer", "client": "java", "version": "4.1.1"}
    lanes, verdicts = [runs.lane("a"), runs.lane("b")], [runs.judged("a"), runs.judged("b")]
    page = page_of(runs.write(tmp_path / "run", lanes, verdicts, events=[{**started, "lane": "a"}]))
    rows = [row for row in page.rows if len(row) == 11]
    assert [[" ".join(cell.split()) for cell in row[:2]] for row in rows] == [
        ["Lane", "Client"], ["a", "java 4.1.1"], ["b", "in process"],
    ]  # fmt: skip


def test_a_violation_comes_first_with_its_reasons(tmp_path: Path) -> None:
    reason = "lost_write is forbidden and was found: 3"
    verdicts = [runs.judged("a", verdict="violation", found={"lost_write": (3, "forbidden")}, reasons=[reason])]
    prediction = {"a": {"anomalies": {"lost_write": {"status": "forbidden", "why": ["none of 59 states shows it"]}}}}
    run = runs.write(tmp_path / "run", [runs.lane("a")], verdicts, verdict="violation", prediction=prediction)
    page = page_of(run)
    assert page.text.index("a lost write is forbidden and was found: 3") < page.text.index("Predicted against")
    assert "1 lane of 1 broke the prediction for its configuration." in page.text
    assert "none of 59 states shows it" in page.text


def test_missing_parts_are_said_not_guessed(tmp_path: Path) -> None:
    page = page_of(runs.write(tmp_path / "run", [runs.lane("a")], [runs.judged("a")]))
    assert "What this run directory lacks (6)" in page.text
    assert "events.jsonl: no phases, faults, leader and ISR changes" in page.text
    assert page.row("a")[0].startswith("a")
    assert "not recorded" in page.text
    assert "There is no picture over time" in page.text
    assert "kafka-chaos run" not in page.text


HOSTILE = "</script></style><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}&amp;"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    lanes = [runs.lane(HOSTILE, acks=HOSTILE, cleanup_policy=HOSTILE)]
    verdicts = [
        runs.judged(HOSTILE, found={"lost_write": (1, HOSTILE)}, not_judged={"phantom": HOSTILE}, reasons=[HOSTILE])
    ]
    events = [
        {key: HOSTILE if value in ("pause", "load", "due to leader epoch") else value for key, value in event.items()}
        for event in runs.story(HOSTILE)
    ]
    experiment = json.dumps({"name": HOSTILE, "seed": HOSTILE, "versions": {HOSTILE: HOSTILE}, "run_id": HOSTILE})
    prediction = {HOSTILE: {"anomalies": {"lost_write": {"status": HOSTILE, "why": [HOSTILE]}}}}
    run = runs.write(tmp_path / "run", lanes, verdicts, prediction=prediction, experiment=experiment, events=events)
    lane = replace(series_of(HOSTILE).lanes[HOSTILE], errors=(ErrorCount(HOSTILE, HOSTILE, 1),))
    ranges = [FindingRange(HOSTILE, "duplicate", 0, None, 1, 2, 2, HOSTILE)]
    page = page_of(run, Series({HOSTILE: lane}, ranges))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert not page.values("onerror")
    assert "{{ 7 * 7 }}" in page.text


def test_ids_are_unique_references_find_them_and_tables_have_captions_and_scoped_headings(tmp_path: Path) -> None:
    page = page_of(full_run(tmp_path), series_of("orders"))
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    labels = {word for value in page.values("aria-labelledby") for word in value.split()}
    links = {value[1:] for value in page.values("href") if value.startswith("#")}
    assert labels | links <= set(ids)
    pictures = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(pictures) == 3
    assert all(picture["aria-labelledby"] for picture in pictures)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("table") == tags.count("caption")
    assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")


def test_commands_are_safe_to_paste(tmp_path: Path) -> None:
    run = full_run(tmp_path / "my runs; rm -rf")
    assert "kafka-chaos run 'my runs; rm -rf/run'/experiment.yaml --seed 42" in page_of(run).text


def huge(lanes: int, partitions: int, ranges: int, name_length: int) -> tuple[list[str], Series]:
    names = [f"{index:05}".ljust(name_length, "x") for index in range(lanes)]
    buckets = tuple(Bucket(index, 10**6, 7, 8, 10**6 + index, 10**7 + index, 10**8 + index) for index in range(160))
    gaps = tuple(Gap(index * S, index * S + S // 2) for index in range(12))
    found = [
        FindingRange(name, anomaly, partition, None, start * 1000, start * 1000 + 7, 8, "x" * 200)
        for name in names
        for partition in range(partitions)
        for anomaly in ("lost_write", "duplicate")
        for start in range(ranges)
    ]
    series = LaneSeries(0, S // 10, buckets, gaps, S, tuple(ErrorCount("info", "e" * 300, 1) for _ in range(8)))
    return names, Series(dict.fromkeys(names, series), found, {})


@pytest.mark.parametrize(
    ("lanes", "partitions", "ranges", "name_length"),
    [
        (3, 300, 20, 30),
        pytest.param(12, 1, 200, 20, marks=pytest.mark.slow),
        pytest.param(60, 4, 50, 249, marks=pytest.mark.slow),
        pytest.param(700, 1, 2, 249, marks=pytest.mark.slow),
    ],
)
def test_stays_below_its_limit_for_any_run(
    tmp_path: Path, lanes: int, partitions: int, ranges: int, name_length: int
) -> None:
    names, series = huge(lanes, partitions, ranges, name_length)
    reasons = ["lost_write is forbidden and was found: 16"] * 3
    verdicts = [
        runs.judged(name, verdict="violation", found={"lost_write": (16, "forbidden")}, reasons=reasons)
        for name in names
    ]
    why = [f"step {step} of a long story" for step in range(60)]
    prediction = {name: {"anomalies": {"lost_write": {"status": "forbidden", "why": [name, *why]}}} for name in names}
    events: list[dict[str, object]] = [runs.event(0, "phase_started", phase="load", lanes=names)]
    for name, change in itertools.product(names, range(4000 // lanes)):
        place = {"lane": name, "partition": change % partitions}
        elected = {"broker": 1, "leader_epoch": change, "start_offset": change * 10, "isr": [1]}
        events.append(runs.event(change / 10, "leader_changed", **place, leader=change % 3 + 1))
        events.append(runs.event(change / 10, "leader_elected", **place, **elected))
    run = runs.write(
        tmp_path / "run", [runs.lane(name) for name in names], verdicts, verdict="violation",
        prediction=prediction, experiment="name: big\n" + "#" * 300_000, events=events,
    )  # fmt: skip
    evidence = read_evidence(run)
    # In processor time: how busy the machine is says nothing of a page.
    start = time.process_time()
    html = render(evidence, timeline_of(evidence), series)
    assert len(html.encode()) < LIMIT
    assert time.process_time() - start < 20
    page = Page(html)
    assert page.row(names[0][:60])
    if lanes > 400:
        assert "lanes with the gravest verdicts are shown" in page.text
