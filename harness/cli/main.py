"""The command `kafka-chaos`. Each subcommand imports what it needs when it is called."""

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import click

from kafka_chaos import __version__
from kafka_chaos.contract.command.command_line import DEBUG, invoke, run_and_exit
from kafka_chaos.contract.command.errors import Interrupted, counted
from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.command.journal import journaled_runs
from kafka_chaos.harness.signals import end_on_signals, was_interrupted

GROUP = "kafka_chaos.commands"
"""The entry point group by which other packages add commands; an entry has a command's name and its click command."""
_SUBJECTS = package_toml(__package__, "commands.toml")
"""The commands of the harness by subject, each with its module and function; other packages' are `more`."""
_OWN_COMMANDS = {key: EntryPoint(key, path, GROUP) for paths in _SUBJECTS.values() for key, path in paths.items()}


class _Commands(click.Group):
    """Imports a command when it is called, so that starting the program loads next to nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_OWN_COMMANDS, *entry_points(group=GROUP).names})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name all commands on one screen: their descriptions would fill two."""
        more = [name for name in self.list_commands(ctx) if name not in _OWN_COMMANDS]
        subjects = {**_SUBJECTS, "more": more} if more else _SUBJECTS
        with formatter.section("Commands (`kafka-chaos COMMAND --help` describes one)"):
            formatter.write_dl([(subject, ", ".join(names)) for subject, names in subjects.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if own := super().get_command(ctx, cmd_name):
            return own
        entry = _OWN_COMMANDS.get(cmd_name) or next(iter(entry_points(group=GROUP, name=cmd_name)), None)
        if entry is None:
            return None
        command = entry.load()
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kafka-chaos")
@click.option(DEBUG, is_flag=True, expose_value=False, help="Print the traceback of an error.")
def cli() -> None:
    """Breaks real Kafka clusters on purpose and proves, record by record, what the documentation promises."""


@cli.command("report")
@click.argument("run_dir", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
def report_command(run_dir: Path) -> None:
    """Write the report of a verified run directory again."""
    from kafka_chaos.harness.report import write_report

    click.echo(write_report(run_dir))


@cli.command("clean")
@click.option("--kept", is_flag=True, help="Also remove clusters that were kept with --keep or --keep-always.")
def clean_command(kept: bool) -> None:
    """Remove the containers, networks, volumes and disks of runs whose process is dead.

    Finds them by label, and disks by their journal; removes nothing else. If such a run left an attached cluster
    broken, the commands in the run's journal heal it.
    """
    from kafka_chaos.harness.attached.journal import heal_abandoned
    from kafka_chaos.harness.cluster.containers.cleanup import clean, leftovers, thaw_disks_of_dead_runs
    from kafka_chaos.harness.cluster.containers.engine import docker_client

    # Disks are thawed first, and without an engine, since other processes of this machine may wait for a frozen disk.
    thaw_disks_of_dead_runs()
    try:
        client = docker_client()
        removed = clean(client, kept=kept)
        for run in removed:
            click.echo(f"removed {counted(run.things, 'thing')} of run {run.run_id}")
        remaining = leftovers(client)
        for run in remaining:
            is_kept = "it was kept: --kept removes it" if run.kept and not kept else "the engine did not remove it"
            why = "it is still running" if run.alive else is_kept
            click.echo(f"left {counted(run.things, 'thing')} of run {run.run_id} alone: {why}")
        if not removed and not remaining:
            click.echo("nothing to remove: no run left anything on this Docker engine")
    finally:
        # Without an engine, too, and last: a healing command that fails must not keep the rest from being removed.
        for healed in heal_abandoned():
            click.echo(f"healed in an attached cluster: {healed}")


@cli.command("prepare")
@click.option("--kafka-version", "kafka_versions", metavar="VERSION", multiple=True,
              help="Also build the image of this version of Kafka; may be repeated.")  # fmt: skip
@click.option("--client", "clients", metavar="CLIENT", multiple=True,
              help="Also fetch this client, such as java:4.1.1 (`kafka-chaos clients`); may be repeated.")  # fmt: skip
@click.option("--clocks", is_flag=True, help="Also build the image of nodes whose clocks can be moved.")
def prepare_command(kafka_versions: tuple[str, ...], clients: tuple[str, ...], clocks: bool) -> None:
    """Build the broker image, which all runs share."""
    from kafka_chaos.harness.clients.kinds import fetch_clients
    from kafka_chaos.harness.cluster.containers.cleanup import try_to_pull_reaper
    from kafka_chaos.harness.cluster.containers.engine import docker_client
    from kafka_chaos.harness.cluster.containers.image import ensure_image, image_tag, is_built
    from kafka_chaos.harness.cluster.containers.versions import known_version
    from kafka_chaos.harness.report.listeners.waiting import Waiting

    versions = [known_version(number).number for number in kafka_versions]
    with Waiting() as waiting:
        fetch_clients(clients, waiting.say)
        if is_built():
            waiting.say(f"the broker image is there: {image_tag()}")
        else:
            ensure_image(say=waiting.say)
            if not try_to_pull_reaper(docker_client()):
                waiting.say("the reaper's image is not available: `kafka-chaos clean` removes what a killed run leaves")
        for number in versions:
            ensure_image(number, say=waiting.say)
        if clocks:
            ensure_image(clock=True, say=waiting.say)


@cli.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the script that completes this command in a shell.

    For bash: eval "$(kafka-chaos completion bash)" in ~/.bashrc.
    """
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(cli, {}, "kafka-chaos", "_KAFKA_CHAOS_COMPLETE").source())


@cli.command("image")
@click.option("--kafka-version", metavar="VERSION", help="Version of Kafka; by default the version that runs use.")
def image_command(kafka_version: str | None) -> None:
    """Build the broker image if it does not exist, and print its name."""
    from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION, ensure_image
    from kafka_chaos.harness.cluster.containers.versions import known_version
    from kafka_chaos.harness.report.listeners.waiting import Waiting

    with Waiting() as waiting:
        tag = ensure_image(known_version(kafka_version or KAFKA_VERSION).number, say=waiting.say)
    click.echo(tag)


def main() -> None:
    """Entry point. An error prints one line and decides the exit code; SIGTERM is handled like Ctrl-C."""
    end_on_signals()
    run_and_exit(_invoke)


def _invoke() -> int:
    try:
        return invoke(cli, "kafka-chaos")
    except (click.exceptions.Abort, KeyboardInterrupt):
        started = _started_runs()
        removed = "; everything that was started is removed" if started else ""
        if started & {*journaled_runs("attached")}:
            removed = "; the attached cluster is still broken: `kafka-chaos clean` heals it"
        raise Interrupted(f"interrupted{removed}") from None
    except Exception as error:
        if was_interrupted():
            # The end of the interrupted command failed, or a library turned the interrupt into another error. It is not
            # known here whether everything was removed.
            left = "; `kafka-chaos clean` removes what is left" if _started_runs() else ""
            raise Interrupted(f"interrupted; the interrupt caused {error!r}{left}") from error
        raise


def _started_runs() -> set[str]:
    """The ids of the runs that this process has started. Imports nothing, since most commands start none."""
    labels = sys.modules.get("kafka_chaos.harness.cluster.containers.labels")
    return set() if labels is None else labels.STARTED_RUNS


if __name__ == "__main__":
    main()
