"""What listeners share that report when a run has ended: they remember the lanes' verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kafka_chaos.contract.events import Event, LaneJudged, RunEnded, RunStarted
from kafka_chaos.harness.report.words import label


class WholeRun(ABC):
    """Listener that reports a run when it has ended, however it ended."""

    def __init__(self) -> None:
        self.experiment = "kafka-chaos"
        self.lanes: tuple[str, ...] = ()
        self.judged: list[LaneJudged] = []

    def __call__(self, event: Event) -> None:
        """Remember the verdicts; write at the end."""
        match event:
            case RunStarted():
                self.experiment, self.lanes = event.experiment, tuple(event.lanes)
            case LaneJudged():
                self.judged.append(event)
            case RunEnded():
                self.write(event)

    @abstractmethod
    def write(self, ended: RunEnded) -> None:
        """Write the whole run. `experiment` and `lanes` have their defaults where it failed before it began."""


def found_in(lane: LaneJudged) -> str:
    """The anomalies that were found in a lane, in words."""
    return ", ".join(f"{label(anomaly)} {count:,}" for anomaly, count in lane.found.items()) or "no anomaly"
