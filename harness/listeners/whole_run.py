"""What listeners share that say nothing before a run has ended: they remember what was judged."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kafka_chaos.harness.events import Event, LaneJudged, RunEnded, RunStarted


class WholeRun(ABC):
    """Listener that tells of a run when it has ended, however it ended."""

    def __init__(self) -> None:
        self.experiment = "kafka-chaos"
        self.lanes: tuple[str, ...] = ()
        self.judged: list[LaneJudged] = []

    def __call__(self, event: Event) -> None:
        """Remember what was judged; tell at the end."""
        match event:
            case RunStarted():
                self.experiment, self.lanes = event.experiment, tuple(event.lanes)
            case LaneJudged():
                self.judged.append(event)
            case RunEnded():
                self.tell(event)

    @abstractmethod
    def tell(self, ended: RunEnded) -> None:
        """Write down the whole run. `experiment` and `lanes` have their defaults where it failed before it began."""
