"""`kafka-chaos client check`: plays the client protocol to a client, and says what is wrong with it."""

import shutil
import sys
import tempfile
from pathlib import Path

import click

from kafka_chaos.contract.command.command_line import console, file_option
from kafka_chaos.contract.command.errors import ExitCode, UsageFailure, counted

_LAST_LINES = 20


@click.group("client")
def client_command() -> None:
    """Check a client of your own."""


@client_command.command("check", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--kafka-version", metavar="VERSION", help="Version of Kafka; by default the version that runs use.")
@click.option(
    "--transactions", is_flag=True, help="Check it as a transactional producer, and its isolation levels, too."
)
@file_option("--log", "Keep what the client writes to its standard error.")
def check_command(command: tuple[str, ...], kafka_version: str | None, transactions: bool, log: Path | None) -> None:
    """Play the client protocol to COMMAND on a real cluster, and say what is wrong with it.

    COMMAND starts your client; or it names one of `kafka-chaos clients`, such as java:3.9.1. The options of this
    command come before it.

    Exit code: 0 all checks passed, 1 the client breaks the protocol, 3 the environment failed.
    """
    from kafka_chaos.conformance.clients.checks import checked
    from kafka_chaos.conformance.clients.kit import Kit
    from kafka_chaos.harness.clients.kinds import KINDS, TRANSACTIONAL, chosen
    from kafka_chaos.harness.cluster.cluster import Cluster
    from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
    from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION, ensure_image
    from kafka_chaos.harness.cluster.containers.versions import known_version
    from kafka_chaos.harness.report.listeners.waiting import Waiting
    from kafka_chaos.harness.run.directory import new_run_id

    is_kind = len(command) == 1 and command[0].partition(":")[0] in KINDS
    client = chosen(command[0] if is_kind else command)
    if client is None:
        raise UsageFailure(f"{command[0]} runs in process: name a version, as in {command[0]}:2.3.0")
    version = known_version(kafka_version or KAFKA_VERSION)
    with Waiting() as waiting:
        client.fetch(waiting.say)
        ensure_image(version.number, say=waiting.say)
    failed = 0
    layout = ClusterLayout(brokers=1, kafka_version=version.number, metadata_mode=version.modes[0])
    with (
        tempfile.TemporaryDirectory(prefix="kafka-chaos-client-") as folder,
        Waiting("checking the client on a cluster of its own", console=console()),
        Cluster(layout, run_id=new_run_id("client-check")) as cluster,
    ):
        servers, admin, broker = cluster.bootstrap_servers, cluster.admin(), cluster.brokers[1]
        is_transactional = transactions or (is_kind and TRANSACTIONAL in client.kind.roles)
        kit = Kit(client.command, servers, admin, broker, Path(folder), is_transactional=is_transactional)
        for name, problem in checked(kit):
            click.echo(f"✗ {name}: {problem}" if problem else f"✓ {name}")
            failed += bool(problem)
        written = Path(folder) / "client.log"
        if log is not None:
            shutil.copy(written, log)
        elif failed and (lines := written.read_text(errors="replace").splitlines()[-_LAST_LINES:]):
            click.echo("\n".join(["the last lines of its log:", *(f"    {line}" for line in lines)]))
    click.echo(f"{counted(failed, 'check')} failed" if failed else "the client speaks the protocol")
    sys.exit(ExitCode.VIOLATION if failed else ExitCode.CONFORMS)
