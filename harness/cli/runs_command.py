"""`kafka-chaos runs list|show`: run directories on the terminal."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from kafka_chaos.contract.command.command_line import console, plain_table
from kafka_chaos.contract.run_directory import REPORT_FILE, VERDICT_FILE

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_NO_VALUE = "–"
"""Stands in a table for a number that the run directory lacks, and for the findings of an unverified run."""
_VERDICT_STYLES = {"conforms": "green", "violation": "bold red", "unknown": "yellow"}


@click.group("runs")
def runs_command() -> None:
    """List run directories, or show one."""


@runs_command.command("list")
@click.argument("root", metavar="[DIR]", type=click.Path(path_type=Path), default=Path("runs"))
@_JSON
def list_command(root: Path, as_json: bool) -> None:
    """List the runs in DIR (by default runs), the latest first, with verdicts and findings."""
    from kafka_chaos.harness.cli.runs import runs_below

    runs = runs_below(root)
    if as_json:
        for run in runs:
            click.echo(json.dumps(run.to_json()))
        return
    if not runs:
        click.echo(f"no runs in {root}: start one with `kafka-chaos run EXPERIMENT`, or name another folder")
        return
    from rich.text import Text

    table = plain_table("run", "started", "verdict", "lanes", "found", wrapped="found")
    for run in runs:
        totals = sum((Counter(run.counts(lane)) for lane in run.lanes), Counter[str]())
        found = ", ".join(f"{anomaly} {count:,}" for anomaly, count in totals.items()) or _no_findings_text(run.verdict)
        verdict = Text(run.verdict, style=_VERDICT_STYLES.get(run.verdict, ""))
        table.add_row(run.name, run.started, verdict, str(len(run.lanes)), found)
    console().print(table)


@runs_command.command("show")
@click.argument("run_dir", metavar="[DIR]", type=click.Path(path_type=Path), default=Path("runs/latest"))
@_JSON
def show_command(run_dir: Path, as_json: bool) -> None:
    """Show one run lane by lane; DIR is its directory, by default runs/latest."""
    from kafka_chaos.harness.cli.runs import UNVERIFIED, read_run

    run = read_run(run_dir)
    if as_json:
        click.echo(json.dumps(run.to_json(), indent=1))
        return
    from rich.text import Text

    record_counts, findings_heading = ("produced", "acknowledged", "consumed"), "found (predicted)"
    title = f"{run.name}: {run.verdict}"
    headings = ("lane", *record_counts, findings_heading, "verdict")
    table = plain_table(*headings, right=record_counts, wrapped=findings_heading, title=title)
    for lane in run.lanes:
        judged: Any = run.judged.get(lane, {})
        anomalies = judged.get("anomalies", {})
        findings = [f"{name} {entry['count']:,} ({entry['status']})" for name, entry in anomalies.items()]
        verdict = str(judged.get("verdict", UNVERIFIED))
        numbers = [f"{judged[key]:,}" if key in judged else _NO_VALUE for key in record_counts]
        cells = (*numbers, "\n".join(findings) or _no_findings_text(verdict))
        table.add_row(lane, *cells, Text(verdict, style=_VERDICT_STYLES.get(verdict, "")))
    terminal = console()
    terminal.print(table)
    for lane in run.lanes:
        for reason in run.judged.get(lane, {}).get("reasons", ()):
            terminal.print(f"  {lane}: {reason}", markup=False, highlight=False)
    report, judged_at = run.path / REPORT_FILE, run.path / VERDICT_FILE
    if run.verdict == UNVERIFIED:
        terminal.print(f"verify it: kafka-chaos verify {run.path}", highlight=False)
    elif report.is_file() and report.stat().st_mtime_ns < judged_at.stat().st_mtime_ns:
        terminal.print(f"its report is of a former verdict: kafka-chaos report {run.path}", highlight=False)
    elif report.is_file():
        terminal.print(str(report), highlight=False)


def _no_findings_text(verdict: str) -> str:
    """The text for a run or lane without findings: `nothing` after a verification, a dash before it."""
    return "nothing" if verdict in _VERDICT_STYLES else _NO_VALUE
