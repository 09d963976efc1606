"""Random experiments, one after the other, drawn most often from what has been tried least and from what led to
something new: whatever a run showed that none before it did (`novelty`).

Guarantee: a hunt with a record goes on where the last one stopped. Every violation is in the record, with the run that
showed it first and the known defects that explain it.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.contract.lane.families import ALL_ANOMALIES
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.campaign.loop import Attempt, Policy
from kafka_chaos.harness.campaign.novelty import novelty_of
from kafka_chaos.harness.campaign.record import append_lines, read_lines
from kafka_chaos.harness.clients.kinds import IN_PROCESS, chosen, lacking
from kafka_chaos.harness.experiment.file import experiment_of, experiment_values
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.shared_cluster import topic_name
from kafka_chaos.reference_model.predict.cache import PATIENCE, predict_cached
from kafka_chaos.reference_model.protocol.known_defects import ALL_DEFECTS
from kafka_chaos.reference_model.search import Budget, ScopeNotExhausted, tell_progress
from kafka_chaos.verification import RunVerdict

_DRAWN = ("faults", "targets", "clusters", "clients")
_VIOLATION = "violation"
FAILED = "a client failed"
MOST_STATES = 100_000
"""A schedule is not drawn if the prediction of one of its lanes takes more states, about half a minute."""
MOST_DRAWS = 50


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """An anomaly that a lane showed against its prediction, or the failure of one of its clients (`anomaly` FAILED).
    `name`: the known defect that explains it, or else its own."""

    name: str
    lane: str
    anomaly: str
    is_explained: bool


@dataclass(frozen=True, kw_only=True)
class Round:
    """One run of a hunt, as a line of its record has it. `drawn`: fault kinds, targets, cluster and clients, each as
    often as they were in it; `new`: what no run had shown before."""

    seconds: float
    run: str
    drawn: tuple[str, ...]
    new: tuple[str, ...]
    found: tuple[Discovery, ...]


@dataclass
class Hunt:
    """Draws experiments, and notes what their runs found.

    `values`: the keys of an experiment file with one phase, whose `schedule` has the key `generate`. `record`: a file
    with a line for each round.
    """

    values: Mapping[str, Any]
    source: str
    record: Path | None = None
    rounds: list[Round] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)
    """How often each fault kind, target, cluster and client was in a run."""
    led_to: Counter[str] = field(default_factory=Counter)
    """How often it was in a run that showed something new."""
    shown: set[str] = field(default_factory=set)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Clients and fault kinds that this machine can't do, with what they need."""
    not_drawn: list[str] = field(default_factory=list)
    """The schedules whose predictions would take too long, each with the first such lane."""
    _since: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, path: Path, record: Path | None = None) -> Self:
        """A hunt with the experiment in a file; raises `UsageFailure` unless its schedule is generated."""
        values = experiment_values(path)
        schedule = values.get("schedule")
        if "phases" in values or not isinstance(schedule, Mapping) or "generate" not in schedule:
            raise UsageFailure(f"{path}: expected an experiment with one phase and `schedule: {{generate: …}}`")
        generate, left_out = dict(schedule["generate"]), dict[str, str]()
        for key, unable in (("clients", lacking), ("faults", _impossible)):
            if names := generate.get(key):
                left_out |= unable(names)
                generate[key] = [name for name in names if name not in left_out]
                if not generate[key]:
                    raise UsageFailure(f"{path}: {key}: expected one that this machine can do")
        if "clients" in generate:
            generate["clients"] = [str(chosen(text) or IN_PROCESS) for text in generate["clients"]]
        hunt = cls({**values, "schedule": {"generate": generate}}, str(path), record, left_out=left_out)
        for former in read_lines(record, Round, "a round of a hunt") if record is not None else ():
            hunt._count(former)
        return hunt

    def policy(self, seeds: random.Random) -> Policy[None]:
        """Draw one experiment after the other; the first is due."""
        for number in itertools.count():
            experiment = self._draw_predictable(seeds)
            outcome = yield Attempt(experiment, Path(self.source).stem, is_due=number == 0)
            if not isinstance(outcome, Exception):
                self.note(experiment, outcome)

    def _draw_predictable(self, seeds: random.Random) -> Experiment:
        for _ in range(MOST_DRAWS):
            experiment = self.draw(seeds.randrange(2**31))
            unpredicted = next(filter(None, (_unpredicted(lane) for _, _, lane in experiment.lanes())), None)
            if unpredicted is None:
                return experiment
            self.not_drawn.append(f"{', '.join(_drawn(experiment))}: {unpredicted}")
        raise UsageFailure(f"{self.source}: none of {MOST_DRAWS} schedules in a row can be predicted soon enough")

    def draw(self, seed: int) -> Experiment:
        """The next experiment: its seed, topics of its own, and weights.

        What was tried least has most weight; so has what led to something new.
        """
        generate = dict(self.values["schedule"]["generate"])
        weights = generate.get("weights", {})
        generate["weights"] = {
            name: weights.get(name, 1.0) * (1 + self.led_to[name]) / (1 + self.tried[name])
            for key in _DRAWN
            for name in generate.get(key, ())
        }
        lanes = [{**lane, "topic": topic_name(str(lane["lane"]))} for lane in self.values["lanes"]]
        values = {**self.values, "seed": seed, "lanes": lanes, "schedule": {"generate": generate}}
        return experiment_of(values, self.source)

    def note(self, experiment: Experiment, result: RunResult) -> None:
        """Note what a run tried and found."""
        clients = {lane.lane: str(lane.client) for lane in experiment.phases[0].lanes}
        round_ = Round(
            seconds=round(time.monotonic() - self._since, 1),
            run=str(result.path),
            drawn=tuple(_drawn(experiment)),
            new=tuple(sorted(novelty_of(result.path) - self.shown)),
            found=tuple(discoveries(result.verdict, clients)),
        )
        self._since = time.monotonic()
        self._count(round_)
        if self.record is not None:
            append_lines(self.record, [round_])

    def found(self) -> Iterator[tuple[Discovery, str, int]]:
        """Each discovery once, by its name: when it was made and in how many rounds, in words; and the first one."""
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
        self.rounds.append(round_)
        self.shown.update(round_.new)
        self.tried.update(round_.drawn)
        self.led_to.update(round_.drawn if round_.new else ())


def discoveries(verdict: RunVerdict, clients: Mapping[str, str]) -> Iterator[Discovery]:
    """The violations of a run, and the known errors that ended clients. `clients`: by lane."""
    for lane in verdict.lanes:
        for defect in ALL_DEFECTS.values():
            if defect.error and any(defect.error in reason for reason in lane.reasons):
                yield Discovery(name=defect.id, lane=lane.lane, anomaly=FAILED, is_explained=True)
        for reason in lane.reasons if lane.verdict == _VIOLATION else ():
            anomaly = reason.partition(" ")[0]
            if anomaly in ALL_ANOMALIES:
                defects = lane.explained.get(reason, ())
                name = " or ".join(" with ".join(together) for together in defects)
                yield Discovery(
                    name=name or f"{anomaly} of {clients[lane.lane]}",
                    lane=lane.lane,
                    anomaly=anomaly,
                    is_explained=bool(defects),
                )


def _impossible(kinds: Iterable[str]) -> dict[str, str]:
    """Those of the fault kinds that this machine can't do, with what it would need."""
    known = fault_kinds()
    return {kind: lacks for kind in kinds if kind in known and (lacks := known[kind].unavailable()) is not None}


def _unpredicted(lane: Lane) -> str | None:
    """Why the answer of the model for a lane takes too long, if it does."""
    try:
        predict_cached(lane, budget=Budget(MOST_STATES, progress=tell_progress, interval=PATIENCE))
    except ScopeNotExhausted as unfinished:
        return str(unfinished)
    return None


def _drawn(experiment: Experiment) -> Iterator[str]:
    phase, cluster = experiment.phases[0], experiment.cluster
    for fault in phase.faults():
        yield from (fault.kind, fault.target.text)
    yield f"{cluster.kafka_version}/{cluster.metadata_mode}"
    yield from (str(lane.client) for lane in phase.lanes)
