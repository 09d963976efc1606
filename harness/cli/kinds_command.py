"""`kafka-chaos faults` and `kafka-chaos clients`: the kinds of faults and clients, and which this machine can run."""

import inspect
import json
from typing import Any

import click

from kafka_chaos.contract.command.command_line import console


@click.command("faults")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per kind.")
def faults_command(as_json: bool) -> None:
    """List the fault kinds: what each breaks, its proof, its keys, and whether this machine can do it."""
    kinds = described_fault_kinds()
    if as_json:
        for kind in kinds:
            click.echo(json.dumps(kind))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 1, 0))
    for heading in ("kind", "what it does, and its proof", "keys", "on this machine"):
        table.add_column(heading)
    for kind in kinds:
        defaults = {key: "none" if value is None else value for key, value in kind["keys"].items()}
        texts = [f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in defaults.items()]
        here = Text("yes", "green") if kind["unavailable"] is None else Text(f"no: {kind['unavailable']}", "yellow")
        table.add_row(Text(kind["kind"], "bold"), Text(kind["description"]), Text("\n".join(texts) or "–"), here)
    console().print(table)


def described_fault_kinds() -> list[dict[str, Any]]:
    """One object per kind: `kind`, `description`, `keys` with defaults, `source`, and why it is `unavailable`."""
    from kafka_chaos.faults.fault import defaults
    from kafka_chaos.faults.registry import fault_kinds

    return [
        {
            "kind": name,
            "description": " ".join(inspect.cleandoc(kind.__doc__ or "").split()).replace("`", ""),
            "keys": defaults(kind),
            "source": kind.__module__,
            "unavailable": kind.unavailable(),
        }
        for name, kind in fault_kinds().items()
    ]


@click.command("clients")
@click.option("--json", "as_json", is_flag=True, help="Print the kinds as JSON.")
def clients_command(as_json: bool) -> None:
    """List the kinds of clients: their usual versions, what they can do, and what this machine lacks for each.

    A lane's key `client` takes NAME or NAME VERSION; `prepare --client NAME:VERSION` fetches a client before any run.
    """
    from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS, ChosenClient

    clients = [
        {
            "client": kind.name,
            "version": kind.version,
            "in_process": kind.name == IN_PROCESS,
            "roles": kind.roles,
            "lacks": kind.install_hints(),
            "fetched": ChosenClient(kind, kind.version).folder.is_dir(),
        }
        for kind in KINDS.values()
    ]
    if as_json:
        click.echo(json.dumps(clients, indent=1))
        return
    for kind, client in zip(KINDS.values(), clients, strict=True):
        state = "; ".join(kind.install_hints()) or ("ready" if client["fetched"] else "fetched when it is first used")
        if kind.name == IN_PROCESS:
            state = f"runs in the harness's process unless a version is chosen; with a version: {state}"
        click.echo(f"{kind.name} {kind.version}: {', '.join(kind.roles)}\n    {state}")
