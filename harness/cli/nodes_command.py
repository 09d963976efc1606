"""`kafka-chaos nodes`: writes the file of nodes that `run --attach` needs to break an existing cluster."""

from pathlib import Path

import click

from kafka_chaos.contract.command.errors import UsageFailure

nodes_command = click.Group("nodes", help="Write the file of nodes of an existing cluster, for `run --attach`.")


@nodes_command.command("compose")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("nodes.yaml"), show_default=True,
              help="Where to write the file of nodes; an existing file is never replaced.")  # fmt: skip
@click.option("-p", "--project", metavar="NAME", help="The project's name, if `docker compose` is given one.")
def compose_command(file: Path, out: Path, project: str | None) -> None:
    """Write the file of nodes of the Kafka cluster in a Compose FILE.

    Finds Kafka's services by their images and variables. Prints how to run an experiment on them, and what may keep
    faults from being proven. Starts and changes nothing.
    """
    from kafka_chaos.contract.command.files import write_whole
    from kafka_chaos.harness.attached.compose import nodes_file_text
    from kafka_chaos.harness.experiment.checks.output import check_writable

    text = nodes_file_text(file, out, project)
    if out.exists():
        raise UsageFailure(f"--out {out}: the file exists already: remove it, or name another")
    check_writable(out.parent, "--out")
    write_whole(out, text)
    heading = text.partition("\ncommands:")[0]
    click.echo("\n".join(line.removeprefix("# ") for line in [f"wrote {out}", *heading.splitlines()]))
