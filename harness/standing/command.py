"""`kafka-chaos cluster`, `break`, `heal` and `state`: start a cluster that stays, and break it by hand."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.command.command_line import ExperimentPath, console
from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, UsageFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.containers.labels import owner_is_alive
from kafka_chaos.harness.event_bus import EventBus, Listener
from kafka_chaos.harness.standing.notes import StandingCluster, find_cluster, log_path, run_id_of, standing_clusters

if TYPE_CHECKING:
    from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
    from kafka_chaos.harness.experiment.specs import Experiment
    from kafka_chaos.harness.run.run import RunResult

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_ON_OPTION = click.option("--on", "name", metavar="NAME", help="The cluster to use; needed if several are running.")


@click.group("cluster")
def cluster_command() -> None:
    """Keep a cluster running until `down`, for `break`, `heal`, `state` and `run --on`."""


@cluster_command.command("up")
@click.argument("name", default="kafka")
@click.option("--brokers", type=int, help="Number of brokers; 3 by default.")
@click.option("--kraft", "metadata_mode", flag_value=KRAFT, help="Keep the metadata in KRaft, as Kafka 4 does anyway.")
@click.option("--controllers", type=int, help="Dedicated KRaft controllers: 1 or 3. Default: brokers are controllers.")
@click.option("--zookeepers", type=int, help="Servers of the ZooKeeper ensemble: 1 or 3.")
@click.option("--version", "kafka_version", metavar="VERSION", help="Version of Kafka; by default as in runs.")
@click.option("--secured", "security", type=click.Choice(["sasl_ssl", "mtls"]), help="What clients need to connect.")
@click.option("--advertise", metavar="HOST", help="Host of the container engine, if it is not this machine.")
@click.option("--links", is_flag=True, help="Let connections pass through links, which faults of single requests need.")
@click.option("--disks", is_flag=True, help="Give each broker a disk of its own, which disk faults need; only as root.")
@click.option("--clocks", is_flag=True, help="Give each node a wall clock that can be moved.")
@click.option("--like", type=ExperimentPath(path_type=Path, dir_okay=False), metavar="EXPERIMENT",
              help="Start the cluster that an experiment file asks for; other options override it.")  # fmt: skip
def up_command(name: str, disks: bool, clocks: bool, like: Path | None, **keys: Any) -> None:
    """Start a cluster of this NAME, and leave it running."""
    from kafka_chaos.harness.cluster.containers.versions import known_version
    from kafka_chaos.harness.standing.keeper import layout_for

    if not _NAME.fullmatch(name):
        raise UsageFailure(f"{name}: expected a name of lower-case letters, digits and '-', of 31 characters at most")
    if any(cluster.name == name for cluster in standing_clusters()):
        raise UsageFailure(f"{name}: this cluster is running already: `kafka-chaos cluster down {name}` removes it")
    # Options that were not given are left out: --like or the defaults decide.
    spec = {key: value for key, value in keys.items() if value is not None and value is not False}
    if "kafka_version" in spec and known_version(spec["kafka_version"]).modes == (KRAFT,):
        spec["metadata_mode"] = KRAFT
    if like is not None:
        from kafka_chaos.harness.experiment.file import load_experiment

        experiment = load_experiment(like)
        needed: ClusterLayout = experiment.layout
        spec = {**experiment.cluster.model_dump(mode="json"), "links": needed.links, **spec}
        disks, clocks = disks or bool(needed.disk_mib), clocks or needed.clocks
    cluster_layout = layout_for(spec, disks=disks, clocks=clocks)
    python_path = os.environ.get("PYTHONPATH", "")
    _start(name, {"spec": spec, "disks": disks, "clocks": clocks, "python_path": python_path}, cluster_layout)
    _show(find_cluster(name))


def _start(name: str, arguments: dict[str, Any], layout: ClusterLayout) -> None:
    """Build missing images, start the process that keeps the cluster with these arguments, and wait until it serves."""
    from kafka_chaos.harness.cluster.containers.cleanup import leftovers, remove_run
    from kafka_chaos.harness.cluster.containers.engine import docker_client
    from kafka_chaos.harness.cluster.containers.image import ensure_image
    from kafka_chaos.harness.report.listeners.waiting import Waiting

    client, run_id = docker_client(), run_id_of(name)
    if any(leftover.alive for leftover in leftovers(client) if leftover.run_id == run_id):
        raise UsageFailure(f"{name}: another user or process has started this cluster: choose another name")
    # A cluster of this name may have died and left containers.
    remove_run(client, run_id)
    log = log_path(name)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Waiting() as waiting:
        for version in (layout.version, *layout.versions):
            ensure_image(version.number, clock=layout.clocks, say=waiting.say)
        waiting.say(f"starting {layout.described}")
        command = command_of("kafka_chaos.harness.standing.keeper", name, json.dumps(arguments))
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

        def serves() -> bool:
            if process.poll() is not None:
                words = log.read_text(encoding="utf-8").strip().removeprefix("kafka-chaos: ")
                raise EnvironmentFailure(f"{name} did not start: {words or f'exit code {process.returncode}'}")
            return any(cluster.name == name for cluster in standing_clusters())

        try:
            wait_until(serves, f"the cluster {name} to serve", timeout=300.0, interval=0.1)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    # The keeper outlives this process. Python warns of a child that still runs, unless it has a return code.
    process.returncode = 0


@cluster_command.command("status")
def status_command() -> None:
    """List the clusters that are running."""
    clusters = standing_clusters()
    for cluster in clusters:
        _show(cluster)
    if not clusters:
        click.echo("no cluster is running; `kafka-chaos cluster up` starts one")


@cluster_command.command("down")
@click.argument("name", required=False)
def down_command(name: str | None) -> None:
    """Heal and remove a cluster; NAME may be left out if only one is running."""
    cluster, start = find_cluster(name), time.monotonic()
    os.kill(cluster.pid, signal.SIGTERM)

    def is_gone() -> bool:
        return not Path(cluster.folder).exists() and not owner_is_alive(cluster.labels)

    wait_until(is_gone, f"the cluster {cluster.name} to be removed", timeout=120.0, interval=0.1)
    click.echo(f"removed {cluster.name} in {time.monotonic() - start:.1f} s")


@click.command("break")
@click.argument("kind")
@click.argument("target")
@click.argument("keys", nargs=-1, metavar="[KEY=VALUE]...")
@_ON_OPTION
def break_command(kind: str, target: str, keys: tuple[str, ...], name: str | None) -> None:
    """Break something by hand, until `heal`: a fault KIND (`kafka-chaos faults` lists them) at a TARGET.

    TARGET is written as in experiments: 'leader(TOPIC)', controller, broker:2. Each KEY is a key of the fault kind.

    Exit code: 0 if it is proven that the fault took effect, else 2.
    """
    from kafka_chaos.harness.experiment.file import parse_document
    from kafka_chaos.harness.report.listeners.terminal import TerminalListener

    cluster = find_cluster(name)
    for pair in keys:
        if not re.match(r"[a-z_]+=", pair):
            raise UsageFailure(f"{pair}: expected KEY=VALUE")
    # The pairs are read as YAML, so that values have the types that they have in experiment files.
    text = "\n".join(pair.replace("=", ": ", 1) for pair in keys)
    _, parameters = parse_document(text or "{}", "keys", "a fault")
    with TerminalListener(console(), first_step=f"breaking: {kind} {target}") as listener:
        proven = cluster.ask("break", listener, fault=kind, target=target, keys=parameters)
    sys.exit(ExitCode.CONFORMS if proven else ExitCode.UNKNOWN)


@click.command("heal")
@click.argument("faults", nargs=-1, metavar="[FAULT]...")
@_ON_OPTION
def heal_command(faults: tuple[str, ...], name: str | None) -> None:
    """Heal what was broken by hand: these faults by their names, such as pause-1, or all."""
    from kafka_chaos.harness.report.listeners.terminal import TerminalListener

    cluster = find_cluster(name)
    with TerminalListener(console(), first_step="healing") as listener:
        healed = cluster.ask("heal", listener, faults=faults)
    if not healed:
        click.echo("nothing is broken")


@click.command("state")
@_ON_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON.")
def state_command(name: str | None, as_json: bool) -> None:
    """Print what runs, who leads, and what is broken."""
    cluster = find_cluster(name)
    state = _state(cluster)
    if as_json:
        click.echo(json.dumps({"name": cluster.name, **state}))
        return
    _show(cluster)
    nodes = ", ".join(f"{node} {how}" for node, how in state["nodes"].items())
    click.echo(f"  nodes: {nodes}\n  controller: {state['controller'] or 'nobody'}")
    for fault_id, (target, hit_nodes, proof) in state["faults"].items():
        click.echo(f"  broken: {fault_id} at {target} = {', '.join(hit_nodes)}, {proof}")
    table = Table("topic", "partition", "leader", "ISR", box=None, padding=(0, 2, 0, 2))
    for topic, partitions in state["topics"].items():
        for number, leader, isr in partitions:
            table.add_row(topic, str(number), str(leader or "–"), " ".join(map(str, sorted(isr))))
    if table.row_count:
        console().print(table)


def _state(cluster: StandingCluster) -> dict[str, Any]:
    """The nodes with their containers' states, the leaders as brokers report them, and the faults in the journal."""
    from kafka_chaos.harness.cluster.admin import ClusterAdmin
    from kafka_chaos.harness.cluster.broker.client import active_controller
    from kafka_chaos.harness.cluster.containers.engine import docker_client
    from kafka_chaos.harness.cluster.containers.labels import ROLE, RUN

    run_id, configs = run_id_of(cluster.name), cluster.configs
    servers = configs.pop("bootstrap.servers")
    nodes = {}
    run_filter = {"label": f"{RUN}={run_id}"}
    for container in docker_client().containers.list(all=True, filters=run_filter, ignore_removed=True):
        # A node that was upgraded has containers of its former versions, too, under other names.
        if (node := container.labels.get(ROLE)) is not None and container.name == f"kafka-chaos-{run_id}-{node}":
            status = container.attrs["State"]
            nodes[node] = "frozen" if status["Paused"] else "running" if status["Running"] else "down"
    admin = ClusterAdmin(servers, configs=configs)
    in_kraft = cluster.mode == KRAFT
    return {
        "nodes": dict(sorted(nodes.items())),
        "controller": active_controller(servers.split(","), configs) if in_kraft else admin.controller(),
        "topics": {
            topic: [(number, state.leader, state.isr) for number, state in sorted(admin.partitions(topic).items())]
            for topic in admin.topics()
        },
        "faults": {
            fault_id: (target, hit_nodes, "took effect" if proven else "without a proof")
            for fault_id, (target, hit_nodes, proven) in cluster.faults().items()
        },
    }


def run_on(
    experiment: Experiment, name: str, *, root: Path, listeners: Sequence[Listener], **options: object
) -> RunResult:
    """Run an experiment on the standing cluster `name`; `options`: `accept_known` and `engine` of `run_experiment`."""
    values, listener = experiment.model_dump(mode="json"), EventBus(*listeners).emit
    result: RunResult = find_cluster(name).ask("run", listener, values=values, root=str(root.resolve()), **options)
    return result


def _show(cluster: StandingCluster) -> None:
    click.echo(
        f"{cluster.name}: {cluster.described}\n  bootstrap.servers={cluster.configs['bootstrap.servers']}\n"
        f"  in containers of the network {cluster.network}: bootstrap.servers={cluster.servers_in_network}\n"
        f"  clients' settings: {cluster.client_config}"
    )
