"""The result of verification: counts, examples and verdicts per lane, as in verdict.json.

Guarantee: `to_json` holds the whole result. A count that is absent there is 0. An anomaly that was not judged is in
`not_judged`, never in `anomalies`.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.lane.families import ALL_ANOMALIES, AnyAnomaly
from kafka_chaos.contract.ledger import Ledger, TableLedger
from kafka_chaos.contract.run_directory import FORMAT_VERSION
from kafka_chaos.verification.inputs.storage import RunPath
from kafka_chaos.verification.judging.work import Work

EXAMPLES = 5
"""How many cases of an anomaly verdict.json names."""


@dataclass(frozen=True, slots=True)
class Observation:
    """How often an anomaly was found in a lane, in its own unit, and the first few cases.

    `causes`: how many cases have which cause (`contract.families`); empty for anomalies without any. `explained`: how
    many of them each known defect explains whose precondition occurred.
    """

    count: int = 0
    examples: tuple[Mapping[str, Any], ...] = ()
    causes: Mapping[str, int] = field(default_factory=dict)
    explained: Mapping[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class LaneVerdict:
    """One lane's result. `reasons`: sentences that say why the verdict is not `conforms`, and what was accepted.

    `predicted`: the statuses for these faults; `in_this_run`: those that differ, given what the run showed.
    `explained`: by the reasons that known defects explain, the sets of them that do. `accepted_defects`: those because
    of which the lane does not make the command fail; its verdict is a violation all the same.
    """

    lane: str
    verdict: Verdict
    produced: int
    acknowledged: int
    consumed: int
    predicted: Mapping[AnyAnomaly, Status]
    observed: Mapping[AnyAnomaly, Observation]
    not_judged: Mapping[AnyAnomaly, str]
    reasons: tuple[str, ...] = ()
    ledger: Ledger | None = None
    explained: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    accepted_defects: tuple[str, ...] = ()
    in_this_run: Mapping[AnyAnomaly, Status] = field(default_factory=dict)
    work: Work | None = field(default=None, compare=False)

    @property
    def anomalies(self) -> tuple[AnyAnomaly, ...]:
        """The anomalies that the verdict is about: those predicted, found or not judged."""
        named = {*Anomaly, *self.predicted, *self.observed, *self.not_judged}
        return tuple(anomaly for anomaly in ALL_ANOMALIES if anomaly in named)

    @property
    def known_defects(self) -> tuple[str, ...]:
        """The known defects that explain forbidden findings of this lane."""
        return tuple(dict.fromkeys(one for sets in self.explained.values() for defects in sets for one in defects))

    @property
    def described(self) -> str:
        """The verdict in a table: one that is accepted says so."""
        return f"{self.verdict} (accepted)" if self.accepted_defects else str(self.verdict)

    @property
    def outcome(self) -> Verdict:
        """The lane's part in the command's exit code."""
        return Verdict.CONFORMS if self.accepted_defects else self.verdict

    def accepting(self, defects: Collection[str]) -> Self:
        """The same verdict, accepted if `defects` explain each of its reasons."""
        used = [[one for one in self.explained.get(reason, ()) if set(one) <= set(defects)] for reason in self.reasons]
        if self.verdict != Verdict.VIOLATION or not all(used):
            return self
        accepted = tuple(dict.fromkeys(defect for sets in used for one in sets for defect in one))
        return replace(
            self, accepted_defects=accepted, reasons=(*self.reasons, f"accepted as known: {', '.join(accepted)}")
        )

    def judged_by(self, anomaly: AnyAnomaly) -> Status | None:
        """The anomaly's status in this run; None if it was not predicted."""
        return self.in_this_run.get(anomaly, self.predicted.get(anomaly))

    def status_described(self, anomaly: AnyAnomaly) -> str:
        """The anomaly's status, and where it differs, both of its statuses."""
        for_these_faults = str(self.predicted.get(anomaly, "not predicted"))
        if anomaly not in self.in_this_run:
            return for_these_faults
        return f"{self.in_this_run[anomaly]} in this run, {for_these_faults} for these faults"

    def count(self, anomaly: AnyAnomaly) -> int | None:
        """The anomaly's count, or None if it was not judged."""
        if anomaly in self.not_judged:
            return None
        return self.observed.get(anomaly, Observation()).count

    def to_json(self) -> dict[str, Any]:
        """This lane's entry of verdict.json."""
        shown = {
            anomaly: self.observed.get(anomaly, Observation())
            for anomaly in self.anomalies
            if self.count(anomaly) or (self.count(anomaly) == 0 and self.predicted.get(anomaly) == Status.REQUIRED)
        }
        return {
            "lane": self.lane,
            "verdict": self.verdict.value,
            "produced": self.produced,
            "acknowledged": self.acknowledged,
            "consumed": self.consumed,
            **({"work": asdict(self.work)} if self.work else {}),
            "anomalies": {
                anomaly.value: {
                    "count": seen.count,
                    **({"status": self.predicted[anomaly].value} if anomaly in self.predicted else {}),
                    **({"in_this_run": self.in_this_run[anomaly].value} if anomaly in self.in_this_run else {}),
                    "examples": [dict(example) for example in seen.examples],
                    **({"causes": dict(sorted(seen.causes.items()))} if seen.causes else {}),
                }
                for anomaly, seen in shown.items()
            },
            "not_judged": {anomaly.value: reason for anomaly, reason in self.not_judged.items()},
            "predicted": {anomaly.value: status.value for anomaly, status in self.predicted.items()},
            **({"in_this_run": dict(self.in_this_run)} if self.in_this_run else {}),
            "reasons": list(self.reasons),
            **({"known_defects": list(self.known_defects)} if self.explained else {}),
            **({"accepted_defects": list(self.accepted_defects)} if self.accepted_defects else {}),
            **({"ledger": self.ledger.to_json()} if self.ledger else {}),
        }


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The result of one run: the lanes' verdicts merged, violation > unknown > conforms.

    `tables`: the rows of every table, by footer and as read. `engine`: what examined the run.
    """

    run_dir: RunPath
    verdict: Verdict
    lanes: tuple[LaneVerdict, ...]
    tables: Mapping[str, TableLedger] = field(default_factory=dict)
    engine: Engine = field(default=Engine.SPARK, compare=False)
    seconds: float = field(default=0.0, compare=False)

    @property
    def described(self) -> str:
        """The verdict in words: one that is accepted says so."""
        return str(self.verdict) if self.outcome == self.verdict else f"{self.verdict} (accepted)"

    @property
    def outcome(self) -> Verdict:
        """Decides the command's exit code: the verdict, apart from lanes with accepted defects."""
        if self.verdict != Verdict.VIOLATION:
            return self.verdict
        return Verdict.gravest(lane.outcome for lane in self.lanes)

    def accepting(self, defects: Collection[str]) -> Self:
        """The same verdict, with those lanes accepted that `defects` explain."""
        return replace(self, lanes=tuple(lane.accepting(defects) for lane in self.lanes))

    def lane(self, name: str) -> LaneVerdict:
        """The verdict of the lane of that name; KeyError if there is none."""
        return {lane.lane: lane for lane in self.lanes}[name]

    def to_json(self) -> dict[str, Any]:
        """The content of verdict.json."""
        return {
            "format_version": FORMAT_VERSION,
            "verdict": self.verdict.value,
            "engine": self.engine.value,
            "tables": {name: asdict(table) for name, table in self.tables.items()},
            "lanes": [lane.to_json() for lane in self.lanes],
        }
