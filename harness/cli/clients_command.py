"""`kafka-chaos clients`: the kinds of clients that a lane may have."""

import json

import click


@click.command("clients")
@click.option("--json", "as_json", is_flag=True, help="Print the kinds as JSON.")
def clients_command(as_json: bool) -> None:
    """List the kinds of clients: their usual versions, what they can do, and what this machine lacks for each.

    A lane names one with its key `client`, as NAME or NAME VERSION; `prepare --client NAME:VERSION` fetches it ahead.
    """
    from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS, ChosenClient

    found = [
        {
            "client": kind.name,
            "version": kind.version,
            "in_process": kind.name == IN_PROCESS,
            "roles": kind.roles,
            "lacks": kind.lacks(),
            "fetched": ChosenClient(kind, kind.version).folder.is_dir(),
        }
        for kind in KINDS.values()
    ]
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for kind, one in zip(KINDS.values(), found, strict=True):
        state = "; ".join(kind.lacks()) or ("ready" if one["fetched"] else "fetched when it is first used")
        if kind.name == IN_PROCESS:
            state = f"in process without a version; with one: {state}"
        click.echo(f"{kind.name} {kind.version}: {', '.join(kind.roles)}\n    {state}")
