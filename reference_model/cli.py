"""The commands `predict` and `explore`: print the model's answers on the terminal or as JSON.

A lane or an option outside any valid configuration is refused with exit code 64 before the search begins. The message
names the option and its valid values.
"""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import click
from click.core import ParameterSource

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.errors import ExitCode, UsageFailure
from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.lanes import InternalTopic, Lane
from kafka_chaos.contract.lane.recovery import USUAL_TIMINGS
from kafka_chaos.reference_model.compare import Cluster
from kafka_chaos.reference_model.compare import compare as compare_clusters
from kafka_chaos.reference_model.explore.core import CoreScope
from kafka_chaos.reference_model.explore.exploration import Exploration, explore
from kafka_chaos.reference_model.lane.anomalies import CHECKS
from kafka_chaos.reference_model.lane.lockstep_phase import parse_lockstep, usual_scope
from kafka_chaos.reference_model.lane_options import (
    fault_kinds,
    lane_keys,
    lane_options,
    refused_by_option,
    settings_options,
    split_list,
)
from kafka_chaos.reference_model.predict.cache import predict_cached
from kafka_chaos.reference_model.predict.prediction import MAX_STATES, predict
from kafka_chaos.reference_model.predict.result import Prediction, PredictionNotExhausted, Unfinished
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS
from kafka_chaos.reference_model.recovery import bounds_of
from kafka_chaos.reference_model.search import Budget, tell_progress

USUAL_TRANSACTION_STATE = InternalTopic(min_insync_replicas=2)
"""`__transaction_state` by Kafka's defaults; the harness's clusters need one replica in sync."""


@click.command("predict")
@lane_options(partitions={"default": 2, "help": "Partitions of the topic; they matter to transactions only."})
@click.option(
    "--transactional",
    is_flag=True,
    help="The producers use transactions: predict their anomalies, too. Implies --idempotence, and with it acks=all.",
)
@settings_options
@click.option(
    "--compare",
    metavar="BEFORE,AFTER",
    help="Instead of one lane, show which lanes of the standard matrix change between two clusters, each written as "
    "VERSION/MODE or VERSION/MODE/elr=true|false: 3.9.1/zookeeper,4.3.1/kraft. Takes no option but --json.",
)
@click.option("--lockstep", metavar="STEP[,STEP…]", help="Steps of a lock-step phase, instead of --faults.")
@click.option(
    "--kept-isr", is_flag=True, help="Assume that brokers leave an ISR because of faults alone, never by being slow."
)
@click.option(
    "--max-states",
    type=click.IntRange(1),
    default=MAX_STATES,
    show_default=True,
    help="End the search after this many states.",
)
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="End the search after this time."
)
@click.option("--story", type=click.Choice([str(anomaly) for anomaly in CHECKS]), metavar="ANOMALY",
              help="Print the anomaly's shortest story instead, as a file for `kafka-chaos scenario run`.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-cache", is_flag=True, help="Search again, and do not cache the answer.")
def predict_command(
    faults: tuple[str, ...],
    transactional: bool,
    compare: str | None,
    lockstep: str | None,
    kept_isr: bool,
    max_states: int,
    timeout: float | None,
    story: str | None,
    as_json: bool,
    no_cache: bool,
    **settings: Any,
) -> None:
    """Predict which anomalies a lane must not, may and must show, and why.

    A lane is one topic together with one producer configuration. The rules of replication are those of the brokers'
    version and metadata mode; versions with the same rules have the same answer. Progress goes to standard error. If
    the search ends early (--max-states, --timeout or Ctrl-C), the answer has the anomalies found by then, and `not
    exhausted` for the others.

    Exit code: 0 the answer is complete, 2 it is not, 64 no valid lane, or no story that scenarios can play.
    """
    if compare is not None:
        _compare(compare, as_json)
        return
    budget = Budget(max_states, timeout, tell_progress)
    prediction: Prediction | Unfinished
    try:
        with refused_by_option(), _cancelled_by_signals(budget):
            keys = lane_keys(settings, transactional=transactional)
            lane = Lane(lane="predict", faults=faults, transaction_state=USUAL_TRANSACTION_STATE, **keys)
            steps = None if lockstep is None else parse_lockstep(split_list((lockstep,)))
            if kept_isr and steps is not None:
                raise UsageFailure("--kept-isr: expected without --lockstep, whose steps say who leaves the ISR")
            if kept_isr or no_cache:
                scope = replace(usual_scope(lane, steps), kept_isr=kept_isr)
                prediction = predict(lane, lockstep=steps, budget=budget, scope=scope)
            else:
                prediction = predict_cached(lane, steps, budget=budget)
    except PredictionNotExhausted as error:
        prediction = error.unfinished
    if story is not None:
        _print_story(lane, Anomaly(story), prediction, lockstep, as_json=as_json)
        return
    answer = prediction.to_json()
    bounds = bounds_of(lane, USUAL_TIMINGS, lane.faults)
    answer["recovery"] = {anomaly.value: bound.to_json() for anomaly, bound in bounds.items()}
    click.echo(json.dumps(answer, indent=2) if as_json else render(answer))
    if isinstance(prediction, Unfinished):
        click.echo(
            f"kafka-chaos: not exhausted: {prediction.reason}. Anomalies found are permitted, the others not known.",
            err=True,
        )
        sys.exit(ExitCode.UNKNOWN)


def _print_story(
    lane: Lane, anomaly: Anomaly, prediction: Prediction | Unfinished, lockstep: str | None, *, as_json: bool
) -> None:
    """Print a file of scenarios with the story of an anomaly. Raises `UsageFailure` where it can't be written."""
    from ruamel.yaml import YAML

    from kafka_chaos.reference_model.stories.scenario import scenario_of

    if isinstance(prediction, Unfinished):
        raise UsageFailure(f"--story: the search did not end: {prediction.reason}")
    if as_json:
        raise UsageFailure("--story: expected without --json: a story is YAML")
    if lockstep is not None:
        raise UsageFailure("--story: expected without --lockstep, whose steps are played by experiments")
    YAML().dump(scenario_of(lane, anomaly, prediction), sys.stdout)


def _compare(clusters: str, as_json: bool) -> None:
    """Print what changes in the standard matrix between two clusters."""
    context = click.get_current_context()
    for name in context.params.keys() - {"compare", "as_json"}:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.BadParameter(
                "only --json goes with --compare, which compares the standard matrix", param_hint=option
            )
    try:
        parsed = [Cluster.parse(text) for text in split_list((clusters,))]
    except UsageFailure as error:
        raise click.BadParameter(str(error), param_hint="--compare") from error
    if len(parsed) != 2:
        raise click.BadParameter("expected two clusters, such as 3.9.1/zookeeper,4.3.1/kraft", param_hint="--compare")
    before, after = parsed
    budget = Budget(MAX_STATES, progress=tell_progress)
    with _cancelled_by_signals(budget):
        comparison = compare_clusters(before, after, lambda lane: predict_cached(lane, budget=budget))
    click.echo(json.dumps(comparison.to_json(), indent=2) if as_json else str(comparison))


def render(answer: dict[str, Any]) -> str:
    """A prediction's JSON as text for people: one paragraph per anomaly, forbidden ones last."""
    lines = []
    entries = {**answer.get("groups", {}), **answer.get("transactions", {}), **answer["anomalies"]}
    for anomaly, entry in sorted(entries.items(), key=lambda item: item[1]["status"] == "forbidden"):
        lines.append(f"{anomaly}: {entry['status']}")
        lines.extend(f"    {sentence}" for sentence in entry["why"])
        for defect in entry["known_defects"]:
            others = "".join(f" with {id}" for id in defect["with"])
            lines.append(
                f"    Known defect {defect['id']} ({defect['component']}, {defect['versions']}){others} allows it:"
            )
            lines.extend(f"        {sentence}" for sentence in defect["why"])
    scope = answer["scope"]
    listed = [defect for entry in entries.values() for defect in entry["known_defects"]]
    allowing = {id for defect in listed for id in (defect["id"], *defect["with"])}
    for name in scope["known_defects"]:
        if name not in allowing:
            defect = MODELLED_DEFECTS[name]
            lines.append(
                f"Known defect {name} ({defect.component}, {defect.versions}) allows nothing more. {defect.effect}"
            )
    lines.extend(scope.get("limits", ()))
    if bounds := answer.get("recovery"):
        lines.append("Recovery, with the time-outs that brokers in KRaft mode and librdkafka have by default, within")
        lines.extend(f"    {bound['derivation']}, or it is {anomaly}" for anomaly, bound in bounds.items())
    lines.append(f"{scope['states']} states, scope {'exhausted' if scope['complete'] else 'NOT exhausted'}")
    return "\n".join(lines)


@contextmanager
def _cancelled_by_signals(budget: Budget) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM end the search with its findings; a second one ends the process."""

    def cancel(number: int, frame: FrameType | None) -> None:
        if budget.reason:
            sys.exit(ExitCode.INTERRUPTED)
        budget.cancel()

    former_handlers = {number: signal.signal(number, cancel) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former_handlers.items():
            signal.signal(number, handler)


FAULTS_ALWAYS_EXPLORED = frozenset(FAULT_KINDS) - {"kill", "power-loss"}  # `CoreScope.faults` need not name these.


@click.command("explore")
@click.option("--protocol", type=click.Choice(tuple(PROTOCOLS)), default="kip320", show_default=True)
@click.option("--brokers", type=click.IntRange(1, 5), default=3, show_default=True)
@click.option("--records", type=click.IntRange(1, 7), default=2, show_default=True)
@click.option("--leader-epochs", type=click.IntRange(1, 9), default=3, show_default=True)
@click.option(
    "--faults",
    multiple=True,
    metavar="KIND[,KIND…]",
    callback=fault_kinds,
    help="kill and power-loss restart a broker, each entry at most once; the other kinds are in every exploration.",
)
@click.option("--unclean-leader-election/--no-unclean-leader-election", default=False, show_default=True)
@click.option("--max-states", type=click.IntRange(1), default=10_000_000, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explore_command(protocol: str, faults: tuple[str, ...], max_states: int, as_json: bool, **bounds: Any) -> None:
    """Explore every interleaving of a replication protocol in a scope, and show the shortest way to each breach."""
    scope = CoreScope(faults=tuple(kind for kind in faults if kind not in FAULTS_ALWAYS_EXPLORED), **bounds)
    budget = Budget(max_states, progress=tell_progress)
    with _cancelled_by_signals(budget):
        exploration = explore(PROTOCOLS[protocol], scope, budget=budget)
    click.echo(json.dumps(exploration.to_json(), indent=2) if as_json else render_exploration(exploration))


def render_exploration(exploration: Exploration) -> str:
    """The exploration as text for people: one paragraph per invariant, the broken ones first."""
    lines = []
    for name, (holds, trace) in sorted(exploration.invariants.items(), key=lambda item: item[1][0] is not False):
        lines.append(f"{name}: {'holds' if holds else 'BROKEN' if holds is False else 'not known'}")
        lines.extend(f"    {number}. {sentence}" for number, sentence in enumerate(trace, 1))
    exhausted = "scope exhausted" if exploration.complete else "scope NOT exhausted"
    rate = exploration.states / max(exploration.cpu_seconds, 1e-9)
    lines.append(f"{exploration.protocol}: {exploration.states} states, {rate:.0f} states/s, {exhausted}")
    return "\n".join(lines)
