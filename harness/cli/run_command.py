"""`kafka-chaos run`: runs an experiment on a new cluster, a cluster of `cluster up`, or somebody else's (--attach)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.command.command_line import PACKAGE, QUIET, ExperimentPath, console, file_option
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.engines import ENGINE, Engine

if TYPE_CHECKING:
    from kafka_chaos.contract.events import Event
    from kafka_chaos.harness.event_bus import Listener
    from kafka_chaos.harness.run.attach import ClusterAccess
    from kafka_chaos.harness.run.run import RunResult

RUNS = Path("runs")


@click.command("run")
@click.argument("experiment", type=ExperimentPath(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=RUNS, show_default=True,
              help="Where to make run directories.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0),
              help="Decides every random choice, instead of the seed in the file.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Leave the cluster running if the run fails before its verdict.")
@click.option("--keep-always", is_flag=True, help="Leave the cluster running for inspection, whatever the verdict.")
@click.option("--json", "as_json", is_flag=True, help="Print events and the verdict as JSON lines.")
@QUIET
@ENGINE
@file_option("--junit", "Write JUnit XML, one test case per lane.")
@file_option("--events", "Write every event as a JSON line, as it happens.")
@click.option("--accept-known", multiple=True, metavar="ID",
              help="Do not fail for a lane whose violations are all explained by this known defect, if the run shows "
              "the defect's preconditions. May be repeated.")  # fmt: skip
@click.option("--on", metavar="NAME",
              help="Run on this cluster, which `cluster up` started, and ignore the key `cluster`.")  # fmt: skip
@click.option("--advertise", metavar="HOST",
              help="Host by which the container engine's machine is reached, if not this one; overrides the "
              "experiment.")  # fmt: skip
@click.option("--attach", metavar="BOOTSTRAP_SERVERS",
              help="Verify existing topics of this cluster: records are added, and nothing is broken unless "
              "--nodes and --allow-faults are given.")  # fmt: skip
@file_option("--client-config", "With --attach: librdkafka's key=value lines, such as the keys for SASL and TLS.")
@file_option("--nodes", "With --attach: the cluster's nodes, and the commands that break and heal them.")
@click.option("--allow-faults", metavar="NODE[,NODE…]",
              help="With --nodes: the nodes that may be broken, by name; all others are left alone.")  # fmt: skip
def run_command(
    experiment: Path,
    out: Path,
    seed: int | None,
    keep: bool,
    keep_always: bool,
    as_json: bool,
    quiet: bool,
    engine: str,
    junit: Path | None,
    events: Path | None,
    accept_known: tuple[str, ...],
    on: str | None,
    advertise: str | None,
    attach: str | None,
    client_config: Path | None,
    nodes: Path | None,
    allow_faults: str | None,
) -> None:
    """Run an experiment and verify it.

    In GitHub Actions, a table of the lanes is also added to the job summary.

    Exit code: 0 conforms, 1 violation (apart from --accept-known), 2 unknown, 3 the environment failed, 64 bad input.
    """
    from kafka_chaos.harness.cluster.cluster import Keep
    from kafka_chaos.harness.cluster.configuration.layout import checked_host
    from kafka_chaos.harness.experiment.checks.output import check_output, check_writable
    from kafka_chaos.harness.experiment.file import load_experiment
    from kafka_chaos.harness.report.listeners.by_options import chosen_listeners
    from kafka_chaos.harness.run.runner import run_experiment
    from kafka_chaos.reference_model.protocol.known_defects import require_known

    require_known(accept_known, "--accept-known")
    overrides: dict[str, Any] = {} if seed is None else {"seed": seed}
    if on is not None:
        from kafka_chaos.harness.standing.notes import find_cluster

        overrides["cluster"] = find_cluster(on).cluster
    if advertise is not None:
        if on is not None or attach is not None:
            raise UsageFailure("--advertise: expected without --on and --attach: that cluster runs already")
        overrides["cluster.advertise"] = checked_host("--advertise", advertise)
    loaded = load_experiment(experiment, overrides=overrides)
    check_output(out, loaded)
    for option, file in (("--junit", junit), ("--events", events)):
        if file is not None:
            check_writable(file.parent, option)
    kept = Keep.ALWAYS if keep_always else Keep.FAILED if keep else Keep.NEVER
    run: Callable[..., RunResult] = partial(run_experiment, loaded, keep=kept, engine=Engine(engine))
    if on is not None:
        from kafka_chaos.harness.standing.command import run_on

        if attach is not None or keep or keep_always:
            raise UsageFailure("--on: expected without --attach, --keep and --keep-always: the cluster stays anyway")
        run = partial(run_on, loaded, on, engine=engine)
    elif attach is not None:
        from kafka_chaos.harness.run.attach import run_attached

        attached = _attached_cluster(attach, client_config, nodes, allow_faults)
        run = partial(run_attached, loaded, attached, engine=Engine(engine))
    else:
        for option, value in (("--client-config", client_config), ("--nodes", nodes), ("--allow-faults", allow_faults)):
            if value is not None:
                raise UsageFailure(f"{option}: expected together with --attach")
    run = partial(run, root=out, accept_known=accept_known)
    listeners = chosen_listeners(junit=junit, events=events)
    if as_json:
        result = run(listeners=[lambda event: click.echo(json.dumps(event.to_json())), *listeners])
        click.echo(json.dumps({"run_dir": str(result.path), **result.verdict.to_json()}))
    elif quiet:
        result = run(listeners=[_print_kept_cluster, *listeners])
    else:
        result = run_in_terminal(run, listeners)
    sys.exit(result.verdict.outcome.exit_code)


@click.command("demo", context_settings={"default_map": {"engine": Engine.DUCKDB.value}})
@click.option("--kraft", is_flag=True, help="Run the demo on Kafka 4 in KRaft mode, not on 3.9 with ZooKeeper.")
@ENGINE
@click.pass_context
def demo_command(context: click.Context, /, kraft: bool, engine: str) -> None:
    """Run the demo, which shows what acks=0, 1 and all are worth. Needs no file and no Java, and writes to runs/.

    A leader is frozen and killed under load, so that records are lost for certain. Exit code: as for `kafka-chaos run`.
    """
    experiment = PACKAGE / "experiments" / ("kraft.yaml" if kraft else "demo.yaml")
    context.invoke(run_command, experiment=experiment, engine=engine)


def _attached_cluster(
    servers: str, client_config: Path | None, nodes: Path | None, allow_faults: str | None
) -> ClusterAccess:
    """The cluster of --attach: its servers, the clients' configuration, its nodes, and which of them may be broken."""
    from kafka_chaos.harness.attached.nodes_file import load_allowed
    from kafka_chaos.harness.clients.java_client import read_client_config
    from kafka_chaos.harness.experiment.lane_specs import OWNED_CLIENT_KEYS
    from kafka_chaos.harness.run.attach import ClusterAccess

    configs = read_client_config(client_config, owned=OWNED_CLIENT_KEYS) if client_config is not None else {}
    if nodes is not None and allow_faults is not None:
        return ClusterAccess(servers, configs, *load_allowed(nodes, allow_faults))
    if nodes is not None or allow_faults is not None:
        raise UsageFailure("--nodes and --allow-faults: nothing is broken without both")
    return ClusterAccess(servers, configs)


def run_in_terminal(run: Callable[..., RunResult], listeners: Sequence[Listener]) -> RunResult:
    """Run the experiment, show its progress and its verdict on the terminal, and return the result."""
    from kafka_chaos.harness.report.listeners.terminal import TerminalListener
    from kafka_chaos.verification.telling import print_verdict

    terminal = console()
    with TerminalListener(terminal) as listener:
        result = run(listeners=[listener, *listeners])
    print_verdict(result.verdict, result.gaps)
    terminal.print(f"{result.path}/report.html", highlight=False)
    return result


def _print_kept_cluster(event: Event) -> None:
    from kafka_chaos.contract.events import ClusterKept
    from kafka_chaos.harness.report.listeners.terminal import advice_on_kept_cluster

    if isinstance(event, ClusterKept):
        click.echo("\n".join(["kafka-chaos: the cluster was left running", *advice_on_kept_cluster(event)]), err=True)
