"""`kafka-chaos trace`: what went through the harness's relays (links) in a run, request by request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_chaos.contract.command.command_line import console, plain_table
from kafka_chaos.contract.command.errors import UsageFailure

if TYPE_CHECKING:
    from kafka_chaos.harness.report.inputs.trace import TracedRequest

_DEFAULT_LIMIT = 200


@click.command("trace")
@click.argument("run_dir", metavar="[DIR]", type=click.Path(path_type=Path), default=Path("runs/latest"))
@click.option("--api", "apis", multiple=True, metavar="NAME", help="Print only this request, like EndTxn; repeatable.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Print only requests to or from this node.")
@click.option("--about", metavar="TEXT",
              help="Print only requests about this transactional id, group, topic or topic-partition.")  # fmt: skip
@click.option("--from", "since", type=float, metavar="SECONDS", help="Print nothing before this second of the run.")
@click.option("--until", type=float, metavar="SECONDS", help="Print nothing after this second of the run.")
@click.option("--faults", is_flag=True, help="Print only requests that a fault held, delayed, lost or cut.")
@click.option("--limit", default=_DEFAULT_LIMIT, show_default=True, help="Print at most this many; 0 prints all.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per request.")
def trace_command(
    run_dir: Path,
    apis: Sequence[str],
    nodes: Sequence[str],
    about: str | None,
    since: float | None,
    until: float | None,
    faults: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Print the requests that went through the relays of a run; DIR is its directory, by default runs/latest.

    Connections go through relays (links) if a fault acts on single requests, or with `links: true` for the cluster.
    """
    from kafka_chaos.faults.links.relay.frames import why_no_api
    from kafka_chaos.harness.report.inputs.trace import read_trace

    for api in apis:
        if (refusal := why_no_api(api)) is not None:
            raise UsageFailure(f"--api: {refusal}")
    selected = [
        request
        for request in read_trace(run_dir)
        if (not apis or request.api in apis)
        and (not nodes or request.node in nodes or request.sender in nodes)
        and (about is None or about in _subjects(request))
        and (since is None or request.sent_at >= since)
        and (until is None or request.sent_at <= until)
        and (not faults or request.fault is not None)
    ]
    shown = selected[:limit] if limit else selected
    if as_json:
        for request in shown:
            click.echo(json.dumps(asdict(request)))
    else:
        _print(shown)
    if len(shown) < len(selected):
        click.echo(f"{len(selected) - len(shown):,} more: select fewer with the options, or use --limit 0", err=True)


def _subjects(request: TracedRequest) -> Iterator[str]:
    """What --about may name: the transactional ids, group, topics and partitions of a request."""
    yield from request.transactional_ids
    yield str(request.detail.get("group_id", ""))
    for topic, partition in request.partitions:
        yield topic
        yield f"{topic}-{partition}"


def _print(shown: Sequence[TracedRequest]) -> None:
    from rich.text import Text

    headings = ("time", "from", "to", "request", "about", "id", "answered after", "", "")
    table = plain_table(*headings, right=("id",), wrapped="about")
    for request in shown:
        took = "never" if request.answered_at is None else f"{(request.answered_at - request.sent_at) * 1000:,.1f} ms"
        table.add_row(
            f"{request.sent_at:.3f} s",
            request.sender,
            f"{request.node}:{request.port}",
            f"{request.api} v{request.version}",
            request.about,
            str(request.correlation_id),
            took,
            Text(", ".join(f"error {code}" for code in request.errors), "red"),
            Text(request.fault.described if request.fault else "", "bold yellow"),
        )
    console().print(table)
