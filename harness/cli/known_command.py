"""`kafka-chaos known`: the known defects of brokers and clients, and the experiment of each with its control.

Each file of `experiments/known/` is one defect: its head says what breaks where (the key `defect`). The defect is shown
if one of the head's anomalies is found on the affected side, or a lane there is unknown for the head's reason, and the
control side has none of that and conforms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.command.command_line import console, plain_table
from kafka_chaos.contract.command.errors import ExitCode, UsageFailure, quoted
from kafka_chaos.contract.engines import ENGINE, Engine

if TYPE_CHECKING:
    from kafka_chaos.harness.experiment.defect_spec import DefectSpec
    from kafka_chaos.harness.experiment.specs import Experiment
    from kafka_chaos.verification import LaneVerdict, RunVerdict

KNOWN = Path(__file__).resolve().parents[2] / "experiments" / "known"
_WIDTH = 120


@dataclass(frozen=True)
class Side:
    """The lanes of one side, the affected one or the control, on their cluster."""

    name: str
    software: str
    lanes: tuple[LaneVerdict, ...]
    expected: Collection[str]
    """The anomalies that the defect can show as."""
    reason: str | None = None
    """Part of the reason for which a lane with the defect is unknown."""

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of its lanes."""
        return Verdict.gravest(lane.verdict for lane in self.lanes)

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each anomaly was found in its lanes, forbidden or not."""
        names = dict.fromkeys(anomaly for lane in self.lanes for anomaly in lane.anomalies if lane.count(anomaly))
        return {name.value: sum(lane.count(name) or 0 for lane in self.lanes) for name in names}

    @property
    def shows_it(self) -> bool:
        """Whether a lane has one of the defect's anomalies, or is unknown for the defect's reason."""
        return any(name in self.counts for name in self.expected) or self.unknown_for_it

    @property
    def unknown_for_it(self) -> bool:
        """Whether a lane is unknown for the defect's reason."""
        unknown = [lane for lane in self.lanes if lane.verdict == Verdict.UNKNOWN]
        return self.reason is not None and any(self.reason in why for lane in unknown for why in lane.reasons)

    @property
    def violates_otherwise(self) -> bool:
        """Whether it is a violation that the defect does not account for."""
        forbidden = {
            anomaly
            for lane in self.lanes
            for anomaly in lane.anomalies
            if lane.count(anomaly) and lane.judged_by(anomaly) == Status.FORBIDDEN
        }
        return self.verdict == Verdict.VIOLATION and (not self.shows_it or not forbidden <= set(self.expected))

    @property
    def described(self) -> str:
        """Its verdict and what was found, in one line."""
        found = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        named = dict.fromkeys(defect for lane in self.lanes for defect in lane.known_defects)
        words = [str(self.verdict), *([found] if found else []), *([f"named: {', '.join(named)}"] if named else [])]
        words += [self.reason] if self.reason is not None and self.unknown_for_it else []
        return f"{self.name} ({self.software}): {'; '.join(words)}"


@dataclass(frozen=True)
class Shown:
    """Both sides of a known defect, once they have run."""

    defect: str
    affected: Side
    control: Side

    @property
    def is_shown(self) -> bool:
        """Whether the affected side has the defect, and the control side conforms without it."""
        known = self.affected.verdict != Verdict.UNKNOWN or self.affected.unknown_for_it
        affected = self.affected.shows_it and known
        control = self.control.verdict == Verdict.CONFORMS and not self.control.shows_it
        return affected and control and not self.affected.violates_otherwise

    @property
    def exit_code(self) -> ExitCode:
        """0 shown; 1 a violation that the defect does not account for; 2 neither."""
        if self.is_shown:
            return ExitCode.CONFORMS
        unexpected = self.affected.violates_otherwise or self.control.verdict == Verdict.VIOLATION
        return ExitCode.VIOLATION if unexpected else ExitCode.UNKNOWN

    @property
    def lines(self) -> list[str]:
        """Both verdicts, and whether the defect was shown."""
        said = "is shown" if self.is_shown else "is not shown"
        why = ", but for a violation that it does not account for" if self.exit_code == ExitCode.VIOLATION else ""
        return [self.affected.described, self.control.described, f"{self.defect} {said}{why}"]

    def to_json(self) -> dict[str, Any]:
        """The form of `known ID --json`."""
        sides = {
            side.name: {"software": side.software, "verdict": side.verdict, "anomalies": side.counts}
            for side in (self.affected, self.control)
        }
        return {"defect": self.defect, "shown": self.is_shown, **sides}


def known_defects(folder: Path = KNOWN) -> dict[str, tuple[Path, DefectSpec]]:
    """The known defects by id, the names of their files. Raises `UsageFailure` for a file that is refused."""
    from kafka_chaos.harness.experiment.file import load_experiment

    found = {}
    for path in sorted(folder.glob("*.yaml")):
        head = load_experiment(path).defect
        if head is None:
            raise UsageFailure(f"{path}: defect: missing, but required of every file in this folder")
        found[path.stem] = path, head
    return found


def show(path: Path, run: Callable[[Experiment], RunVerdict]) -> Shown:
    """Run the experiment of a defect, and its control if that needs another cluster. Both are checked first."""
    from kafka_chaos.harness.experiment.file import experiment_values, load_experiment

    affected, control = load_experiment(path), None
    head = affected.defect
    assert head is not None
    if head.control is not None:
        cluster = experiment_values(path).get("cluster", {})
        configs = {**cluster.get("broker_configs", {}), **head.control.broker_configs}
        changed = {**cluster, **head.control.model_dump(exclude_none=True), "broker_configs": configs}
        control = load_experiment(path, overrides={"cluster": changed})

    def side(name: str, experiment: Experiment, lanes: tuple[LaneVerdict, ...]) -> Side:
        clients = {spec.lane: spec.client for _, spec, _ in experiment.lanes()}
        using = [f"{lane.lane}: {clients[lane.lane]}" for lane in lanes] if head.lanes else []
        software = "; ".join([f"Kafka {experiment.cluster.kafka_version}", *using])
        return Side(name, software, lanes, head.anomalies, head.reason)

    first = run(affected).lanes
    if control is None:
        others = side("control", affected, tuple(lane for lane in first if lane.lane not in head.lanes))
        first = tuple(lane for lane in first if lane.lane in head.lanes)
    else:
        others = side("control", control, run(control).lanes)
    return Shown(path.stem, side("affected", affected, first), others)


@click.command("known")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), show_default=True,
              help="Where to make run directories.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the table, or both verdicts, as JSON and nothing else.")
@ENGINE
def known_command(ids: tuple[str, ...], out: Path, as_json: bool, engine: str) -> None:
    """List known defects of brokers and clients, or run the experiment of each ID and its control.

    Both sides are lanes of one run where they differ in the client, and two runs where they differ in the broker.

    Exit code: 0 shown on the affected side and not on the control side, which conforms; 1 a violation on the control
    side, or one that the defect does not account for; 2 not shown, or a control without a verdict. With several IDs,
    1 if there is a 1, else 2 if there is a 2.
    """
    defects = known_defects()
    by_id = {id.lower(): id for id in defects}
    for id in ids:
        if id.lower() not in by_id:
            raise UsageFailure(f"{quoted(id)}: expected known defects out of {', '.join(defects)}")
    if not ids:
        _print_table(defects, as_json)
        return
    codes = []
    for id in ids:
        shown = show(defects[by_id[id.lower()]][0], _runner(out, Engine(engine), quiet=as_json))
        click.echo(json.dumps(shown.to_json()) if as_json else "\n".join(shown.lines))
        codes.append(shown.exit_code)
    sys.exit(next((code for code in (ExitCode.VIOLATION, ExitCode.UNKNOWN) if code in codes), ExitCode.CONFORMS))


def _runner(out: Path, engine: Engine, *, quiet: bool) -> Callable[[Experiment], RunVerdict]:
    from functools import partial

    from kafka_chaos.harness.cli.run_command import run_in_terminal
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.run.runner import run_experiment

    def run(experiment: Experiment) -> RunVerdict:
        check_output(out, experiment)
        prepared = partial(run_experiment, experiment, root=out, engine=engine)
        return (prepared(listeners=()) if quiet else run_in_terminal(prepared, ())).verdict

    return run


def _print_table(defects: Mapping[str, tuple[Path, DefectSpec]], as_json: bool) -> None:
    if as_json:
        heads = {id: head.model_dump(mode="json", exclude_none=True) for id, (_, head) in defects.items()}
        click.echo(json.dumps(heads, indent=1))
        return
    terminal = console()
    table = plain_table("id", "what breaks", "affected → mended", "min", "shown", right=("min", "shown"))
    for id, (_, head) in defects.items():
        shown = f"{head.shown} of {head.runs}" if head.shown else "tried"
        table.add_row(id, head.title, f"{head.affected} → {head.mended}", f"{head.minutes:g}", shown)
    terminal.print(table, width=min(terminal.width, _WIDTH), markup=False)
    for id, (_, head) in defects.items():
        if head.tried is not None:
            terminal.print(f"{id}, tried: {head.tried}", width=min(terminal.width, _WIDTH), markup=False)
