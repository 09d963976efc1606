"""`kafka-chaos known`: the known defects of brokers and clients, and the experiment of each with its control.

Each file of `experiments/known/` has an affected side and a control; its key `defect`, the head, says what breaks. A
side shows the defect by one of the head's `anomalies`, by a time without acknowledgements longer than `gap`, or by a
verdict that is unknown for the `reason`. The defect is shown if the affected side shows it, and the control conforms
without showing it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.command.command_line import console, plain_table
from kafka_chaos.contract.command.errors import ExitCode, UsageFailure, quoted
from kafka_chaos.contract.engines import ENGINE, Engine

if TYPE_CHECKING:
    from kafka_chaos.harness.experiment.defect_spec import DefectSpec
    from kafka_chaos.harness.experiment.specs import Experiment
    from kafka_chaos.harness.run.run import RunResult
    from kafka_chaos.verification import LaneVerdict

KNOWN_FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "known"
_MAX_WIDTH = 120


@dataclass(frozen=True)
class Side:
    """One side of a defect, affected or control: its lanes, and the software that they ran on.

    `head`: the key `defect` of the experiment. `gap`: the most seconds that a lane was without acknowledgements.
    """

    name: str
    software: str
    lanes: tuple[LaneVerdict, ...]
    head: DefectSpec
    gap: float

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of the side's lanes."""
        return Verdict.gravest(lane.verdict for lane in self.lanes)

    def counts(self, *, forbidden: bool = False) -> Mapping[str, int]:
        """How often each anomaly was found in the side's lanes; with `forbidden`, only where it was forbidden."""
        counts: Counter[str] = Counter()
        for lane in self.lanes:
            for anomaly in lane.anomalies:
                if not forbidden or lane.judged_by(anomaly) == Status.FORBIDDEN:
                    counts[anomaly.value] += lane.count(anomaly) or 0
        return +counts  # `+` leaves out anomalies that were found 0 times.

    @property
    def unknown_for_reason(self) -> bool:
        """Whether a lane's verdict is unknown for the reason that the head gives."""
        reasons = [why for lane in self.lanes if lane.verdict == Verdict.UNKNOWN for why in lane.reasons]
        return self.head.reason is not None and any(self.head.reason in why for why in reasons)

    @property
    def shows_defect(self) -> bool:
        """Whether the side shows the defect by an anomaly, too long a gap, or the reason for an unknown verdict."""
        too_long = self.head.gap is not None and self.gap > self.head.gap
        return any(name in self.counts() for name in self.head.anomalies) or too_long or self.unknown_for_reason

    @property
    def has_unexplained_violation(self) -> bool:
        """Whether the side's verdict is a violation that the defect does not explain."""
        unrelated = self.counts(forbidden=True).keys() - set(self.head.anomalies)
        return self.verdict == Verdict.VIOLATION and (not self.shows_defect or bool(unrelated))

    @property
    def described(self) -> str:
        """The side's verdict and what was found in it, in one line."""
        words = [str(self.verdict)]
        if anomalies := ", ".join(f"{name} {count:,}" for name, count in self.counts().items()):
            words.append(anomalies)
        if defects := ", ".join(dict.fromkeys(defect for lane in self.lanes for defect in lane.known_defects)):
            words.append(f"named: {defects}")
        if self.head.gap is not None:
            words.append(f"nothing acknowledged for {self.gap:.1f} s")
        if self.unknown_for_reason:
            words.append(f"{self.head.reason}")
        return f"{self.name} ({self.software}): {'; '.join(words)}"


@dataclass(frozen=True)
class Comparison:
    """Both sides of a known defect, once they have run."""

    defect: str
    affected: Side
    control: Side

    @property
    def is_shown(self) -> bool:
        """Whether the affected side shows the defect, and the control side conforms without it."""
        # An unknown verdict of the affected side counts only if the head names its reason.
        is_judged = self.affected.verdict != Verdict.UNKNOWN or self.affected.unknown_for_reason
        control_is_clean = self.control.verdict == Verdict.CONFORMS and not self.control.shows_defect
        return self.affected.shows_defect and is_judged and control_is_clean

    @property
    def exit_code(self) -> ExitCode:
        """0: shown on the affected side alone; 1: a violation that the defect does not explain; 2: neither."""
        if self.affected.has_unexplained_violation or self.control.verdict == Verdict.VIOLATION:
            return ExitCode.VIOLATION
        return ExitCode.CONFORMS if self.is_shown else ExitCode.UNKNOWN

    @property
    def lines(self) -> list[str]:
        """Three lines: one for each side, and whether the defect was shown."""
        why = ", and a violation has another cause" if self.exit_code == ExitCode.VIOLATION else ""
        result = f"{self.defect} is {'shown' if self.exit_code == ExitCode.CONFORMS else 'not shown'}{why}"
        return [self.affected.described, self.control.described, result]


def known_defects(folder: Path = KNOWN_FOLDER) -> dict[str, tuple[Path, DefectSpec]]:
    """The files and heads of the known defects by id. Raises `UsageFailure` for a file that is refused."""
    from kafka_chaos.harness.experiment.file import load_experiment

    defects = {}
    for path in sorted(folder.glob("*.yaml")):
        head = load_experiment(path).defect
        if head is None:
            raise UsageFailure(f"{path}: defect: missing, but required of every file in this folder")
        defects[path.stem] = path, head
    return defects


def experiments_of(path: Path) -> tuple[Experiment, Experiment | None]:
    """The experiment of a defect, and its control if the head names a cluster for it."""
    from kafka_chaos.harness.experiment.file import experiment_values, load_experiment

    affected = load_experiment(path)
    if affected.defect is None or (control := affected.defect.control) is None:
        return affected, None
    cluster = experiment_values(path).get("cluster", {})
    configs = {**cluster.get("broker_configs", {}), **control.broker_configs}
    changed = {**cluster, **control.model_dump(exclude_none=True), "broker_configs": configs}
    return affected, load_experiment(path, overrides={"cluster": changed})


def compare_sides(path: Path, run: Callable[[Experiment], RunResult]) -> Comparison:
    """Run the experiment of a defect, and compare its sides.

    If the head names the control's cluster, the control is a second run. Else lanes of the first run are the control.
    """
    affected, control = experiments_of(path)
    head = affected.defect
    assert head is not None

    def side(name: str, experiment: Experiment, result: RunResult, names: Collection[str]) -> Side:
        lanes = tuple(lane for lane in result.verdict.lanes if lane.lane in names)
        clients = {spec.lane: spec.client for spec in experiment.lane_specs}
        using = [f"{lane.lane}: {clients[lane.lane]}" for lane in lanes] if head.lanes else []
        software = "; ".join([f"Kafka {experiment.cluster.kafka_version}", *using])
        return Side(name, software, lanes, head, max((result.gaps.get(lane, 0.0) for lane in names), default=0.0))

    affected_result, names = run(affected), [spec.lane for spec in affected.lane_specs]
    if control is None:
        control_side = side("control", affected, affected_result, [name for name in names if name not in head.lanes])
    else:
        control_side = side("control", control, run(control), names)
    return Comparison(path.stem, side("affected", affected, affected_result, head.lanes or names), control_side)


@click.command("known")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), show_default=True,
              help="Where to make run directories.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@ENGINE
def known_command(ids: tuple[str, ...], out: Path, as_json: bool, engine: str) -> None:
    """List known defects of brokers and clients, or run the experiment of each ID and its control.

    If the affected side and the control have different clients, they are lanes of one run; otherwise, two runs.

    Exit code: 0 shown on the affected side and not on the control side, which conforms; 1 a violation on the control
    side, or a violation that the defect does not explain; 2 not shown, or a control without a verdict. With several
    IDs: 1 if one of them gives 1, else 2 if one gives 2.
    """
    defects = known_defects()
    id_by_lower_case = {id.lower(): id for id in defects}
    for id in ids:
        if id.lower() not in id_by_lower_case:
            raise UsageFailure(f"{quoted(id)}: expected known defects out of {', '.join(defects)}")
    if not ids:
        _print_table(defects, as_json)
        return
    if as_json:
        raise UsageFailure("--json: expected without an ID; the run directories have verdict.json")
    from kafka_chaos.harness.campaign.loop import violation_decides
    from kafka_chaos.harness.cli.run_command import run_in_terminal
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.run.runner import run_experiment

    def run(experiment: Experiment) -> RunResult:
        check_output(out, experiment)
        return run_in_terminal(partial(run_experiment, experiment, root=out, engine=Engine(engine)), ())

    codes = set()
    with violation_decides(lambda: ExitCode.VIOLATION in codes):
        for id in ids:
            path, _ = defects[id_by_lower_case[id.lower()]]
            comparison = compare_sides(path, run)
            click.echo("\n".join(comparison.lines))
            codes.add(comparison.exit_code)
    sys.exit(next((code for code in (ExitCode.VIOLATION, ExitCode.UNKNOWN) if code in codes), ExitCode.CONFORMS))


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
    terminal.print(table, width=min(terminal.width, _MAX_WIDTH), markup=False)
    for id, (_, head) in defects.items():
        if head.tried is not None:
            terminal.print(f"{id}, tried: {head.tried}", width=min(terminal.width, _MAX_WIDTH), markup=False)
