"""The summary of a nightly run: in how many runs each lane showed each anomaly, with a 95 % Wilson interval.

Guarantee: a run counts for an anomaly only if that anomaly was judged. Failed and unjudged runs are counted separately.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.campaign.shares import Share
from kafka_chaos.verification import LaneVerdict

SETTINGS = ("acks", "idempotence", "min_insync_replicas", "unclean_leader_election", "faults")


@dataclass(frozen=True, kw_only=True)
class LaneViolation:
    """A lane that broke its prediction, and how."""

    lane: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run of a nightly run. If it failed, `verdict` is None and `error` says why."""

    experiment: str
    seed: int
    seconds: float
    run_dir: str | None = None
    verdict: Verdict | None = None
    error: str | None = None
    violations: tuple[LaneViolation, ...] = ()


@dataclass(frozen=True)
class AnomalyCount:
    """In how many of `runs` an anomaly was found, with the interval of their share; `records` in all of them."""

    status: Status
    runs: int
    hits: int
    records: int
    low: float
    high: float

    @classmethod
    def of(cls, judged: Sequence[tuple[Status, int]]) -> Self:
        """Of the runs that judged the anomaly: its status and how often it was found in each."""
        share = Share([count for _, count in judged])
        low, high = (round(bound, 4) for bound in share.interval)
        status = max((status for status, _ in judged), key=list(Status).index)
        return cls(status, share.runs, share.hits, sum(share.counts), low, high)


@dataclass(frozen=True)
class LaneCount:
    """One lane in all runs of its experiment."""

    experiment: str
    lane: str
    settings: Mapping[str, Any]
    """Those that the summary tells."""
    verdicts: Mapping[str, int]
    anomalies: Mapping[str, AnomalyCount]

    @classmethod
    def of(cls, experiment: str, lane: Lane, seen: Sequence[LaneVerdict]) -> Self:
        """That of the lane's verdicts."""
        judged: dict[str, list[tuple[Status, int]]] = {}
        for one in seen:
            for anomaly, status in one.predicted.items():
                if (count := one.count(anomaly)) is not None:
                    judged.setdefault(anomaly.value, []).append((status, count))
        entry, verdicts = lane.to_json(), [one.verdict for one in seen]
        return cls(
            experiment=experiment,
            lane=lane.lane,
            settings={key: entry[key] for key in SETTINGS},
            verdicts={str(verdict): verdicts.count(verdict) for verdict in Verdict},
            anomalies={name: AnomalyCount.of(found) for name, found in judged.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The content of summary.json: a `night`, named by its start, its `runs` in order, and what its `lanes` showed.

    `actions`: in how many runs the evidence of each action of the model is there, of all that leave some
    (`report.inputs.actions.ACTIONS`).
    """

    format_version: Literal[1] = 1
    night: str
    verdict: Verdict
    seed: int
    seconds: float
    versions: Mapping[str, str]
    runs: tuple[RunEntry, ...]
    lanes: tuple[LaneCount, ...]
    actions: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The object of summary.json."""
        return asdict(self)

    def to_markdown(self) -> str:
        """The summary for people: first violations and failures, then the findings with their intervals."""
        from kafka_chaos.harness.report.pages import environment

        return (
            environment()
            .overlay(autoescape=False)
            .get_template("summary.md.j2")
            .render(
                summary=self,
                broken=[(run, violation) for run in self.runs for violation in run.violations],
                failed=[run for run in self.runs if run.verdict is None],
            )
        )


def write_summary(folder: Path, summary: Summary) -> None:
    """Write summary.json and summary.md, each whole or not at all."""
    write_whole(folder / "summary.json", json.dumps(summary.to_json(), indent=1) + "\n")
    write_whole(folder / "summary.md", summary.to_markdown())
