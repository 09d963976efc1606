"""`kafka-chaos cluster`, `break`, `heal` and `state`: a cluster that stays, and what is done to it by hand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.command.command_line import console
from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, UsageFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import Event
from kafka_chaos.harness.standing.place import Standing, find, log_of, run_id_of, standing

if TYPE_CHECKING:
    from kafka_chaos.harness.experiment.specs import Experiment
    from kafka_chaos.harness.run.run import RunResult

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_START_TIMEOUT = 300.0
_END_TIMEOUT = 120.0
_ON = click.option("--on", "name", metavar="NAME", help="Which cluster; needed where several stand.")


@click.group("cluster")
def cluster_command() -> None:
    """A cluster that stays until `down`, for `break`, `heal`, `state` and `run --on`."""


@cluster_command.command("up")
@click.argument("name", default="kafka")
@click.option("--brokers", type=int, help="How many brokers; 3 by default.")
@click.option("--kraft", is_flag=True, help="Keep the metadata in KRaft, as Kafka 4 does anyway.")
@click.option("--controllers", type=int, help="KRaft controllers that are no brokers: 1 or 3; by default brokers are.")
@click.option("--zookeepers", type=int, help="Servers of the ZooKeeper ensemble: 1 or 3.")
@click.option("--version", metavar="VERSION", help="Version of Kafka; by default the version that runs use.")
@click.option("--secured", type=click.Choice(["sasl_ssl", "mtls"]), help="What clients need to connect.")
@click.option("--links", is_flag=True, help="Let every connection pass a link, as faults of single requests need it.")
@click.option("--disks", is_flag=True, help="Give each broker a disk of its own, as faults of disks need it; as root.")
@click.option("--clocks", is_flag=True, help="Give each node a wall clock that can be moved.")
@click.option("--like", type=click.Path(path_type=Path, dir_okay=False), metavar="EXPERIMENT",
              help="Start what an experiment file asks for; other options come on top.")  # fmt: skip
def up_command(
    name: str,
    kraft: bool,
    version: str | None,
    secured: str | None,
    disks: bool,
    clocks: bool,
    like: Path | None,
    **numbers: Any,
) -> None:
    """Start a cluster of this NAME, and leave it running."""
    from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
    from kafka_chaos.harness.standing.supervisor import layout

    if not _NAME.fullmatch(name):
        raise UsageFailure(f"{name}: expected a name of small letters, digits and '-', of 31 characters at most")
    if any(one.name == name for one in standing()):
        raise UsageFailure(f"{name}: this cluster stands already: `kafka-chaos cluster down {name}` removes it")
    spec: dict[str, Any] = {key: value for key, value in numbers.items() if value is not None and value is not False}
    if like is not None:
        from kafka_chaos.harness.experiment.file import load_experiment

        experiment = load_experiment(like)
        needed: ClusterLayout = experiment.layout
        spec = {**experiment.cluster.model_dump(mode="json"), "links": needed.links, **spec}
        disks, clocks = disks or bool(needed.disk_mib), clocks or needed.clocks
    spec |= _chosen(kraft=kraft, version=version, secured=secured)
    wanted = layout(spec, disks=disks, clocks=clocks)
    _start(name, {"cluster": spec, "disks": disks, "clocks": clocks}, wanted)
    _show(find(name))


def _chosen(*, kraft: bool, version: str | None, secured: str | None) -> dict[str, Any]:
    from kafka_chaos.contract.lane.metadata import KRAFT
    from kafka_chaos.harness.cluster.containers.versions import known_version

    chosen: dict[str, Any] = {}
    if version is not None:
        chosen["kafka_version"] = known_version(version).number
        kraft = kraft or known_version(version).modes == (KRAFT,)
    if kraft:
        chosen["metadata_mode"] = KRAFT
    if secured is not None:
        chosen["security"] = secured
    return chosen


def _start(name: str, wanted: dict[str, Any], layout: Any) -> None:
    """Build what is missing, start the process that keeps the cluster, and wait until it serves."""
    from kafka_chaos.harness.cluster.containers.cleanup import remove_run
    from kafka_chaos.harness.cluster.containers.engine import docker_client
    from kafka_chaos.harness.cluster.containers.image import ensure_image
    from kafka_chaos.harness.report.listeners.waiting import Waiting

    remove_run(docker_client(), run_id_of(name))
    with Waiting() as waiting:
        for version in (layout.version, *layout.versions):
            ensure_image(version.number, clock=layout.clocks, say=waiting.say)
        waiting.say(f"starting {layout.described}")
        _start_process(name, wanted)


def _start_process(name: str, wanted: dict[str, Any]) -> None:
    log = log_of(name)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = command_of("kafka_chaos.harness.standing.supervisor", name)
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, text=True, start_new_session=True
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(wanted) + "\n")
    process.stdin.close()

    def serves() -> bool:
        if process.poll() is not None:
            words = log.read_text(encoding="utf-8").strip().removeprefix("kafka-chaos: ")
            raise EnvironmentFailure(f"{name} did not start: {words or f'exit code {process.returncode}'}")
        return any(one.name == name for one in standing())

    try:
        wait_until(serves, f"the cluster {name} to serve", timeout=_START_TIMEOUT, interval=0.1)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    # It goes on without this process, which is not to warn of that.
    process.returncode = 0


@cluster_command.command("status")
def status_command() -> None:
    """List the clusters that stand."""
    found = standing()
    for one in found:
        _show(one)
    if not found:
        click.echo("no cluster stands; `kafka-chaos cluster up` starts one")


@cluster_command.command("down")
@click.argument("name", required=False)
def down_command(name: str | None) -> None:
    """Heal and remove a cluster; NAME may be left out where one stands alone."""
    one = find(name)
    start = time.monotonic()
    one.ask("down")
    gone: Callable[[], bool] = lambda: not Path(one.folder).exists() and one.name not in [x.name for x in standing()]  # noqa: E731
    wait_until(gone, f"the cluster {one.name} to be removed", timeout=_END_TIMEOUT, interval=0.1)
    click.echo(f"removed {one.name} in {time.monotonic() - start:.1f} s")


@click.command("break")
@click.argument("kind")
@click.argument("target")
@click.argument("keys", nargs=-1, metavar="[KEY=VALUE]...")
@_ON
def break_command(kind: str, target: str, keys: tuple[str, ...], name: str | None) -> None:
    """Break something by hand, until `heal`: a fault KIND (`kafka-chaos faults` lists them) at a TARGET.

    Targets are those of experiments, such as 'leader(TOPIC)', controller or broker:2; keys are those of the kind.

    Exit code: 0 it is proven that it took effect, 2 it is not.
    """
    proven = _with_events(
        find(name), "break", f"breaking: {kind} {target}", fault=kind, target=target, keys=_values(keys)
    )
    sys.exit(ExitCode.CONFORMS if proven else ExitCode.UNKNOWN)


def _values(keys: tuple[str, ...]) -> dict[str, Any]:
    from kafka_chaos.harness.experiment.file import document_of

    for one in keys:
        if not re.match(r"[a-z_]+=", one):
            raise UsageFailure(f"{one}: expected KEY=VALUE")
    pairs = (one.partition("=") for one in keys)
    text = "\n".join(f"{key}: {value}" for key, _, value in pairs)
    return document_of(text or "{}", "keys", "a fault")[1]


@click.command("heal")
@click.argument("faults", nargs=-1, metavar="[FAULT]...")
@_ON
def heal_command(faults: tuple[str, ...], name: str | None) -> None:
    """Heal what was broken by hand: these faults by their names, such as pause-1, or all."""
    if not _with_events(find(name), "heal", "healing", faults=faults):
        click.echo("nothing is broken")


@click.command("state")
@_ON
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def state_command(name: str | None, as_json: bool) -> None:
    """Print what runs, who leads, and what is broken."""
    one = find(name)
    state = one.ask("state")
    if as_json:
        click.echo(json.dumps({"name": one.name, **state}))
        return
    _show(one)
    nodes = ", ".join(f"{node} {how}" for node, how in state["nodes"].items())
    click.echo(f"  nodes: {nodes}\n  controller: {state['controller'] or 'nobody'}")
    if state["busy"]:
        click.echo(f"  busy: {state['busy']}")
    for fault_id, (target, hit, proof) in state["faults"].items():
        click.echo(f"  broken: {fault_id} at {target} = {', '.join(hit)}, {proof}")
    table = Table("topic", "partition", "leader", "ISR", box=None, padding=(0, 2, 0, 2))
    for topic, partitions in state["topics"].items():
        for number, leader, isr in partitions:
            table.add_row(topic, str(number), str(leader or "–"), " ".join(map(str, sorted(isr))))
    if table.row_count:
        console().print(table)


def run_on(
    experiment: Experiment, name: str, *, root: Path, listeners: list[Callable[[Event], None]], accept_known: Any
) -> RunResult:
    """Run an experiment on a cluster that stands; the arguments as those of `run_experiment`."""

    def listen(event: Event) -> None:
        for listener in listeners:
            listener(event)

    values = experiment.model_dump(mode="json")
    result: RunResult = find(name).ask(
        "run", listen, values=values, root=str(root.resolve()), accept_known=tuple(accept_known)
    )
    return result


def _with_events(one: Standing, what: str, doing: str, **arguments: Any) -> Any:
    from kafka_chaos.harness.report.listeners.terminal import TerminalListener

    with TerminalListener(console(), doing=doing) as listener:
        return one.ask(what, listener, **arguments)


def _show(one: Standing) -> None:
    click.echo(
        f"{one.name}: {one.described}\n  bootstrap.servers={one.bootstrap_servers}\n  clients' settings: "
        f"{one.client_config}"
    )
