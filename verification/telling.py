"""A verdict on the terminal: a table of the lanes, and what is to be said of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.command.command_line import console
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.verification.judging.result import LaneVerdict, RunVerdict

STYLES = {Verdict.CONFORMS: "green", Verdict.UNKNOWN: "yellow", Verdict.VIOLATION: "bold red"}


def print_verdict(verdict: RunVerdict, gaps: Mapping[str, float] | None = None) -> None:
    """Print, lane by lane, what was predicted, observed and concluded, and why.

    `gaps`: by lane the longest time without an acknowledgement, in seconds, where it is known.
    """
    from rich.table import Table
    from rich.text import Text

    title = f"{verdict.run_dir.name}: {verdict.described}  ({verdict.seconds:.1f} s, engine {verdict.engine})"
    table = Table(title=title, title_justify="left", title_style=STYLES[verdict.verdict])
    table.add_column("lane", no_wrap=True)
    for heading in ("asked", "attempted", "acknowledged", "lost", "duplicated", *(["longest gap"] if gaps else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("predicted", max_width=32)
    table.add_column("observed", max_width=40)
    table.add_column("verdict", no_wrap=True)
    shown_gaps = {lane: f"{seconds:.1f} s" for lane, seconds in (gaps or {}).items()}
    for lane in verdict.lanes:
        counts = [(anomaly, lane.count(anomaly)) for anomaly in lane.anomalies]
        told = [(one, n) for one, n in counts if n or (n == 0 and lane.judged_by(one) == Status.REQUIRED)]
        table.add_row(
            lane.lane,
            "" if lane.work is None else "not known" if lane.work.asked is None else f"{lane.work.asked:,}",
            f"{lane.produced:,}",
            f"{lane.acknowledged:,}",
            _count(lane, Anomaly.LOST_WRITE),
            _count(lane, Anomaly.DUPLICATE),
            *([shown_gaps.get(lane.lane, "")] if gaps else []),
            describe_prediction(lane),
            "\n".join(f"{one} {count:,} ({lane.status_described(one)})" for one, count in told) or "nothing",
            Text(lane.described, style=STYLES[lane.verdict]),
        )
    terminal = console()
    terminal.print(table)
    for line in (
        *(f"{lane.lane}: {reason}" for lane in verdict.lanes for reason in lane.reasons),
        *(f"{lane.lane}: {line}" for lane in verdict.lanes if lane.work for line in lane.work.lines),
        *_ledger_lines(verdict),
    ):
        terminal.print(f"  {line}", markup=False, highlight=False)


def describe_prediction(lane: LaneVerdict) -> str:
    """A lane's prediction for losses and duplicates, and everything else that it requires."""
    words: dict[AnyAnomaly, str] = {Anomaly.LOST_WRITE: "loss", Anomaly.DUPLICATE: "duplicates"}
    required = [one for one, status in lane.predicted.items() if one not in words and status is Status.REQUIRED]
    return "\n".join(
        f"{words.get(one, one)} " + (Status.NOT_JUDGED if one in lane.not_judged else lane.status_described(one))
        for one in (*words, *required)
    )


def _count(lane: LaneVerdict, anomaly: Anomaly) -> str:
    found = lane.count(anomaly)
    return "not judged" if found is None else f"{found:,}"


def _ledger_lines(verdict: RunVerdict) -> Iterator[str]:
    """A line per lane with incomplete evidence, except for its stated reasons; and, once, what was left out."""
    ledgers = [(lane, lane.ledger) for lane in verdict.lanes if lane.ledger is not None]
    for lane, ledger in ledgers:
        if not ledger.complete:
            missing = [problem for problem in ledger.missing if problem not in lane.reasons]
            not_judged = f"not judged: {', '.join(lane.not_judged) or 'nothing'}"
            yield f"{lane.lane}: incomplete evidence; {'; '.join([not_judged, *missing])}"
    for what in dict.fromkeys(what for _, ledger in ledgers for what in ledger.left_out):
        yield f"left out: {what}"
