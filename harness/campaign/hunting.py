"""The policy of `hunt`, which decides what runs next: a random experiment each time.

What was tried least, and what led to something new, is drawn more often. Something is new if no run before has shown
it. What a run showed is a set of texts (`observations_of`): actions of the model, states of partitions, outcomes of
records, and lines of clients' and brokers' logs, each without the numbers and names that change from run to run.

Guarantee: a hunt with a record file goes on where the last hunt with this file stopped. The file has every violation,
with the run that showed it first and the known defects that explain it.
"""

import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.contract.events import IsrChanged
from kafka_chaos.contract.lane.families import ALL_ANOMALIES
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.campaign.loop import Attempt, Policy
from kafka_chaos.harness.campaign.record import append_lines, read_lines
from kafka_chaos.harness.clients.kinds import IN_PROCESS, missing_programs, parse_client
from kafka_chaos.harness.experiment.file import experiment_of, experiment_values
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.report.inputs.actions import actions_of, lanes_and_events, outcomes_of
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.shared_cluster import new_topic_name
from kafka_chaos.reference_model.predict.cache import PROGRESS_SECONDS, predict_cached
from kafka_chaos.reference_model.protocol.known_defects import ALL_DEFECTS
from kafka_chaos.reference_model.search import Budget, ScopeNotExhausted, tell_progress
from kafka_chaos.verification import RunVerdict

_IGNORED_LINE = re.compile(r"\s|\[[^]]*\] (?:TRACE|DEBUG) ")
"""The beginning of log lines that are passed over: they continue the line before, or are too detailed."""
_VARYING_WORD = re.compile(r"[\w.:/@$+-]*\d[\w.:/@$+-]*")
"""A word with a digit, such as an offset, an address or a thread's name: it may change from run to run."""
_WORD_LIST = re.compile(r"#(?:[\s,]+#)+")
"""A list of varying words, once each is replaced by `#`: the list's length may change, too."""
_KEPT_CHARACTERS = 120
_DRAWN_KEYS = ("faults", "targets", "clusters", "clients")
"""The keys of `generate` that list names, which are drawn by weights."""
_VIOLATION = "violation"
FAILED = "a client failed"
MOST_STATES = 100_000
"""An experiment is drawn again if a lane's prediction explores more states than this, which takes half a minute."""
MOST_DRAWS = 50


def observations_of(run_dir: Path) -> set[str]:
    """Everything that a run showed, as texts; nothing for a run whose documents can't be used."""
    lanes, events = lanes_and_events(run_dir)
    if not lanes:
        return set()
    clients = {lane.lane: f"{lane.client or IN_PROCESS}, {lane.lane}" for lane in lanes}
    observations = {f"{clients[lane]}: {action}" for lane, counts in actions_of(run_dir).items() for action in counts}
    for lane, outcome, error, _ in outcomes_of(run_dir):
        observations.add(f"{clients.get(lane, lane)}: {outcome} {normalised(str(error))}")
    for (lane, _), changes in events.changes.items():
        for change in changes:
            state = f"ISR of {len(change.isr)}" if isinstance(change, IsrChanged) else "a new leader"
            ns = change.ts_ns
            begun = [fault for fault in events.concerning(lane) if fault.requested and fault.requested[0] <= ns]
            ongoing = sorted({fault.kind for fault in begun if not fault.healed or ns <= fault.healed[-1]})
            observations.add(f"{state} during {' and '.join(ongoing) or 'no fault'}")
    for name, lines in lines_of(run_dir).items():
        observations |= {f"{name.partition('-')[0]}: {line}" for line in lines}
    return observations


def lines_of(run_dir: Path) -> Mapping[str, Mapping[str, str]]:
    """For each log, by its name: its distinct lines, as a mapping from the normalised form to the first such line."""
    by_log: dict[str, dict[str, str]] = {}
    for path in sorted((run_dir / "logs").glob("*.log")):
        lines = by_log.setdefault(path.stem, {})
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if not _IGNORED_LINE.match(line):
                    lines.setdefault(normalised(line.rstrip()), line.rstrip())
    return by_log


def normalised(line: str) -> str:
    """The beginning of a line, with `#` for numbers, ids, addresses and names that have digits."""
    return _WORD_LIST.sub("#", _VARYING_WORD.sub("#", line))[:_KEPT_CHARACTERS]


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """An anomaly that a lane showed against its prediction, or the failure of a client (`anomaly` is FAILED).

    `name`: the known defect that explains it, or else a name of its own: the anomaly and the client.
    """

    name: str
    lane: str
    anomaly: str
    is_explained: bool


@dataclass(frozen=True, kw_only=True)
class Round:
    """One run of a hunt, which is a line of the hunt's record file.

    `seconds`: since the last round's end, or the start. `drawn`: fault kinds, targets, cluster and clients, each as
    often as it was in the run. `new`: the texts of `observations_of` that no run had shown before.
    """

    seconds: float
    run: str
    drawn: tuple[str, ...]
    new: tuple[str, ...]
    found: tuple[Discovery, ...]


@dataclass
class Hunt:
    """Draws experiments, and notes what their runs found.

    `values`: the keys of the experiment file `source`, which has one phase, and in `schedule` the key `generate`.
    `record`: the record file, which has a line for each round.
    """

    values: Mapping[str, Any]
    source: str
    record: Path | None = None
    rounds: list[Round] = field(default_factory=list)
    times_tried: Counter[str] = field(default_factory=Counter)
    """How often each fault kind, target, cluster and client was in a run."""
    times_new: Counter[str] = field(default_factory=Counter)
    """How often each fault kind, target, cluster and client was in a run that showed something new."""
    observations: set[str] = field(default_factory=set)
    """The texts of `observations_of` of all rounds."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """The clients and fault kinds that this machine can't run or inject, with what they need."""
    skipped_schedules: list[str] = field(default_factory=list)
    """Schedules that were drawn, but refused or too slow to predict, each with the reason."""
    _last_end: float = field(default_factory=time.monotonic)
    """The monotonic time in seconds when the last round ended; before the first round, when the hunt was made."""

    @classmethod
    def from_file(cls, path: Path, record: Path | None = None) -> Self:
        """A hunt with the experiment in a file; raises `UsageFailure` unless its schedule is generated."""
        values = experiment_values(path)
        schedule = values.get("schedule")
        if "phases" in values or not isinstance(schedule, Mapping) or "generate" not in schedule:
            raise UsageFailure(f"{path}: expected an experiment with one phase and `schedule: {{generate: …}}`")
        generate, unavailable = dict(schedule["generate"]), dict[str, str]()
        for key, missing_for in (("clients", missing_programs), ("faults", _unavailable_kinds)):
            if names := generate.get(key):
                unavailable |= missing_for(names)
                generate[key] = [name for name in names if name not in unavailable]
                if not generate[key]:
                    raise UsageFailure(f"{path}: {key}: expected at least one that this machine can run")
        if "clients" in generate:
            generate["clients"] = [str(parse_client(text) or IN_PROCESS) for text in generate["clients"]]
        hunt = cls({**values, "schedule": {"generate": generate}}, str(path), record, unavailable=unavailable)
        for former in read_lines(record, Round, "a round of a hunt") if record is not None else ():
            hunt._count(former)
        return hunt

    def policy(self, seeds: random.Random) -> Policy[None]:
        """Draw one experiment after the other; the first is run even without budget."""
        for number in itertools.count():
            experiment = self.draw_predictable(seeds)
            outcome = yield Attempt(experiment, Path(self.source).stem, ignores_budget=number == 0)
            if not isinstance(outcome, Exception):
                self.note(experiment, outcome)

    def draw_predictable(self, seeds: random.Random) -> Experiment:
        """Draw until an experiment can run and be predicted quickly. Raises `UsageFailure` after `MOST_DRAWS`."""
        refusals = Counter[str]()
        for _ in range(MOST_DRAWS):
            described = "a schedule"
            try:
                experiment = self.draw(seeds.randrange(2**31))
                described = ", ".join(_drawn(experiment))
                for _, _, lane in experiment.lanes:
                    predict_cached(lane, budget=Budget(MOST_STATES, progress=tell_progress, interval=PROGRESS_SECONDS))
                return experiment
            except (UsageFailure, ScopeNotExhausted) as refused:
                self.skipped_schedules.append(f"{described}: {refused}")
                refusals[str(refused)] += 1
        raise UsageFailure(f"{self.source}: none of {MOST_DRAWS} schedules can run: {refusals.most_common(1)[0][0]}")

    def draw(self, seed: int) -> Experiment:
        """Draw the next experiment. Names that led to something new get more weight, names tried often get less."""
        generate = dict(self.values["schedule"]["generate"])
        weights = generate.get("weights", {})
        generate["weights"] = {
            name: weights.get(name, 1.0) * (1 + self.times_new[name]) / (1 + self.times_tried[name])
            for key in _DRAWN_KEYS
            for name in generate.get(key, ())
        }
        lanes = [{**lane, "topic": new_topic_name(lane.get("topic", lane["lane"]))} for lane in self.values["lanes"]]
        values = {**self.values, "seed": seed, "lanes": lanes, "schedule": {"generate": generate}}
        return experiment_of(values, self.source)

    def note(self, experiment: Experiment, result: RunResult) -> None:
        """Note what a run tried and found."""
        clients = {lane.lane: str(lane.client) for lane in experiment.phases[0].lanes}
        round_ = Round(
            seconds=round(time.monotonic() - self._last_end, 1),
            run=str(result.path),
            drawn=tuple(_drawn(experiment)),
            new=tuple(sorted(observations_of(result.path) - self.observations)),
            found=tuple(discoveries(result.verdict, clients)),
        )
        self._last_end = time.monotonic()
        self._count(round_)
        if self.record is not None:
            append_lines(self.record, [round_])

    def first_discoveries(self) -> Iterator[tuple[Discovery, str, int]]:
        """The first discovery of each name, when and how often it was made (in words), and the index of its round."""
        hits = Counter(name for round_ in self.rounds for name in {discovery.name for discovery in round_.found})
        passed, names = 0.0, set[str]()
        for number, round_ in enumerate(self.rounds, 1):
            passed += round_.seconds
            for discovery in round_.found:
                if discovery.name not in names:
                    names.add(discovery.name)
                    when = f"after {counted(round(passed / 60), 'minute')} and {counted(number, 'round')}"
                    often = f"in {hits[discovery.name]} of {counted(len(self.rounds), 'round')}"
                    yield discovery, f"{when}, {often}", number - 1

    def _count(self, round_: Round) -> None:
        """Count a round of this hunt, or of a former hunt with the same record."""
        self.rounds.append(round_)
        self.observations.update(round_.new)
        self.times_tried.update(round_.drawn)
        self.times_new.update(round_.drawn if round_.new else ())


def discoveries(verdict: RunVerdict, clients: Mapping[str, str]) -> Iterator[Discovery]:
    """The violations of a run, and the known errors that ended clients. `clients`: the name of each lane's client."""
    for lane in verdict.lanes:
        for defect in ALL_DEFECTS.values():
            if defect.error and any(defect.error in reason for reason in lane.reasons):
                yield Discovery(name=defect.id, lane=lane.lane, anomaly=FAILED, is_explained=True)
        for reason in lane.reasons:
            # The reason for a violation begins with the anomaly's name.
            anomaly = reason.partition(" ")[0]
            if lane.verdict == _VIOLATION and anomaly in ALL_ANOMALIES:
                # Each entry is a set of known defects that explain the violation together.
                defects = lane.explained.get(reason, ())
                known_name = " or ".join(" with ".join(combination) for combination in defects)
                name = known_name or f"{anomaly} of {clients[lane.lane]}"
                yield Discovery(name=name, lane=lane.lane, anomaly=anomaly, is_explained=bool(defects))


def _unavailable_kinds(kinds: Iterable[str]) -> dict[str, str]:
    """The kinds of faults that are impossible on this machine, with what the machine lacks."""
    installed = fault_kinds()
    return {kind: lacks for kind in kinds if kind in installed and (lacks := installed[kind].unavailable()) is not None}


def _drawn(experiment: Experiment) -> Iterator[str]:
    """The fault kinds, targets, cluster and clients of an experiment."""
    phase, cluster = experiment.phases[0], experiment.cluster
    for fault in phase.faults:
        yield from (fault.kind, fault.target.text)
    yield f"{cluster.kafka_version}/{cluster.metadata_mode}"
    yield from (str(lane.client) for lane in phase.lanes)
