"""`kafka-chaos plan`: prints, before a run, what the run would do, and which anomalies the model permits in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.command.command_line import ExperimentPath, console, plain_table
from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.contract.command.progress import progress
from kafka_chaos.contract.lane.families import FAMILY_KEYS
from kafka_chaos.contract.lane.lanes import settings_described

if TYPE_CHECKING:
    from rich.console import Console

    from kafka_chaos.harness.experiment.specs import Experiment, PhaseSpec


@click.command("plan")
@click.argument("experiment", type=ExperimentPath(path_type=Path))
@click.option("--seed", type=click.IntRange(min=0),
              help="Decides every random choice, instead of the seed in the file.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON object.")
def plan_command(experiment: Path, seed: int | None, as_json: bool) -> None:
    """Print what a run of EXPERIMENT would do, and start nothing.

    The plan has every fault of the schedule, even if it was drawn at random, with the number of brokers that the fault
    may hit, and what the model expects of it. The plan also has the predictions of all lanes, the duration of the load,
    and the disk space that the run may need. Roles such as leader(LANE) are resolved only when their fault begins.
    """
    from kafka_chaos.harness.experiment.file import load_experiment
    from kafka_chaos.harness.report.listeners.waiting import Waiting

    loaded = load_experiment(experiment, overrides={} if seed is None else {"seed": seed})
    with Waiting("asking registries for the versions of clients") as waiting:
        _confirm_clients(experiment, loaded, waiting.say)
    with Waiting("predicting what each lane may lose or duplicate"):
        plan = plan_of(loaded)
    if as_json:
        click.echo(json.dumps(plan))
        return
    terminal = console()
    terminal.print(f"{plan['experiment']}: {plan['cluster']}; seed {plan['seed']}", highlight=False)
    for phase in plan["phases"]:
        _print_phase(terminal, phase)
    seconds, megabytes = plan["load_seconds"], plan["bytes"] / 2**20
    terminal.print("\nAll anomalies that are not named above are forbidden.", highlight=False)
    terminal.print(f"load for {seconds:g} s in all; up to {megabytes:,.0f} MiB of disk", highlight=False)


def _confirm_clients(path: Path, experiment: Experiment, say: Callable[[str], None]) -> None:
    """Raise `UsageFailure` for versions of clients that do not exist, and say which registry does not answer."""
    from kafka_chaos.harness.clients.kinds import parse_client

    # Of entries with the same key, a dict keeps the last: the reversed order leaves each client's first lane.
    first_lanes = {lane.client: lane.lane for phase in reversed(experiment.phases) for lane in reversed(phase.lanes)}
    for name, lane in first_lanes.items():
        client = parse_client(name)
        try:
            if client is not None and (why := client.why_unconfirmed()):
                say(f"can't confirm that {client} exists: {why}")
        except UsageFailure as failure:
            raise UsageFailure(f"{path}: lane {lane}: client: {failure}") from failure


def plan_of(experiment: Experiment) -> dict[str, Any]:
    """The plan as `--json` prints it: `phases` with `schedule` and `lanes`; times in seconds from the phase's start."""
    return {
        "experiment": experiment.name,
        "seed": experiment.seed,
        "cluster": experiment.layout.described,
        "load_seconds": sum(phase.workload.duration for phase in experiment.phases),
        "bytes": experiment.planned_bytes,
        "phases": [_phase_plan(experiment, phase) for phase in experiment.phases],
    }


def _phase_plan(experiment: Experiment, phase: PhaseSpec) -> dict[str, Any]:
    """An entry of `phases` in the plan."""
    from kafka_chaos.faults.fault import parameters
    from kafka_chaos.harness.experiment.model_faults import brokers_hit, joint_faults_of, model_faults_of
    from kafka_chaos.harness.experiment.timings import timings_of
    from kafka_chaos.harness.run.run import prediction_of
    from kafka_chaos.reference_model.recovery import bounds_of
    from kafka_chaos.verification.judging.assessment import by_configuration

    cluster = experiment.cluster.as_layout()
    schedule = [
        {
            "at": fault.at,
            "until": fault.at + fault.duration,
            "fault": fault.kind,
            "target": fault.target.text,
            "brokers": brokers_hit(fault, cluster),
            "members": phase.members_hit(fault),
            "model_faults": list(model_faults_of(fault, cluster)),
            "crashes": phase.members_hit(fault) if fault.crashes_members else 0,
            "parameters": parameters(fault),
        }
        for fault in phase.faults
    ]
    lanes = []
    # Predictions also cover the partitions that faults will add.
    lane_specs = phase.with_added_partitions().lanes
    for number, spec in enumerate(lane_specs):
        progress(number, len(lane_specs), spec.lane)
        lane = experiment.as_lane(phase, spec)
        prediction = prediction_of(phase, lane)
        answers = {str(name): answer for family in FAMILY_KEYS for name, answer in prediction.get(family, {}).items()}
        statuses = {name: answer["status"] for name, answer in answers.items()}
        defects = {
            name: sorted({" with ".join([cause["id"], *cause["with"]]) for cause in causes})
            for name, answer in answers.items()
            if (causes := answer["known_defects"])
        }
        entry = {"lane": lane.lane, "faults": list(lane.faults), "anomalies": statuses, "known_defects": defects}
        keys = ("transactional", "group", "loop", "share")
        client_keys = {key: value for key, value in lane.to_json().items() if key in keys}
        bounds = bounds_of(lane, timings_of(spec, cluster), lane.faults)
        recovery = {anomaly.value: bound.to_json() for anomaly, bound in bounds.items()}
        not_judged: dict[str, str] = {anomaly.value: why for anomaly, why in by_configuration(lane).items()}
        unbounded = [anomaly.value for anomaly in lane.recovery_anomalies if anomaly not in bounds]
        why = "the time-outs of its clients are not known, and it has no recover_within"
        not_judged |= dict.fromkeys([anomaly for anomaly in unbounded if anomaly not in not_judged], why)
        lanes.append({**entry, **client_keys, "recovery": recovery, "not_judged": not_judged})
    return {
        "phase": phase.phase,
        "workload": phase.workload.model_dump(mode="json"),
        "steps": phase.steps.model_dump(mode="json") if phase.steps else None,
        "schedule": schedule,
        "model_faults_together": list(joint_faults_of(phase.faults, cluster)),
        "lanes": lanes,
    }


def _print_phase(terminal: Console, phase: dict[str, Any]) -> None:
    load = phase["workload"]
    words = f"{load['rate']:g} records/s of {load['record_size']} bytes for {load['duration']:g} s"
    terminal.print(f"\n{phase['phase']}: {counted(len(phase['lanes']), 'lane')}, each {words}", highlight=False)
    for lane in phase["lanes"]:
        for description in settings_described(lane):
            terminal.print(f"  {lane['lane']}: {description}", highlight=False)
        if lane["recovery"]:
            within = ", ".join(f"{bound['seconds']:g} s ({anomaly})" for anomaly, bound in lane["recovery"].items())
            terminal.print(f"  {lane['lane']}: has to recover within {within}", highlight=False)
    if phase["steps"]:
        steps = ", ".join(phase["steps"]["steps"])
        terminal.print(f"  lock-step phase at {phase['steps']['target']}: {steps}", highlight=False)
    if phase["schedule"]:
        headings = ("at", "until", "fault", "target", "hits", "the model expects at most")
        table = plain_table(*headings, right=headings[:2])
        for fault in phase["schedule"]:
            brokers = counted(fault["brokers"], "broker") if fault["brokers"] else "no broker"
            hits = counted(fault["members"], "member") if fault["members"] else brokers
            expected = ", ".join([*fault["model_faults"], *["crash"] * fault["crashes"]]) or "nothing"
            times = (f"{fault['at']:g} s", f"{fault['until']:g} s")
            table.add_row(*times, fault["fault"], fault["target"], hits, expected)
        terminal.print(table)
    if phase["model_faults_together"]:
        expected = ", ".join(phase["model_faults_together"])
        together = "faults that overlap may leave no majority of controllers"
        terminal.print(f"{together}: the model also expects {expected}", highlight=False)
    statuses = ("permitted", "required")
    table = plain_table("lane", *statuses)
    for lane in phase["lanes"]:
        judged = [(name, status) for name, status in lane["anomalies"].items() if name not in lane["not_judged"]]
        columns = [", ".join(name for name, answer in judged if answer == status) for status in statuses]
        table.add_row(lane["lane"], *(names or "–" for names in columns))
    terminal.print(table)
    for lane in phase["lanes"]:
        if lane["known_defects"]:
            listed = ", ".join(f"{name} ({' or '.join(ids)})" for name, ids in lane["known_defects"].items())
            terminal.print(f"  {lane['lane']}: forbidden, yet known defects can cause: {listed}", highlight=False)
        for why in dict.fromkeys(lane["not_judged"].values()):
            names = ", ".join(name for name, reason in lane["not_judged"].items() if reason == why)
            terminal.print(f"  {lane['lane']}: not judged, since {why}: {names}", highlight=False)
