"""Shrinks a schedule to the fewest and shortest faults that still show a finding, by delta debugging (ddmin).

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002). A run may show or miss a
finding by luck. So a candidate is run until it is clear that it shows the finding as often as the whole schedule, or
only half as often (Wald's sequential probability ratio test, 1945). A candidate that shows the finding only now and
then is not taken: the result would be smaller, but not reliable.

Nothing here runs a cluster: `loop.follow` performs the trials.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kafka_chaos.harness.campaign.loop import OutOfBudget, Policy

Schedule = tuple[Mapping[str, Any], ...]
"""Faults, each with the keys of an entry of an experiment's `schedule`."""
Trial = Callable[[Schedule], Policy[bool]]
"""Makes a policy that runs a schedule once, and returns whether the run showed the finding."""

CLEAR_ODDS = 5.0
"""A candidate is decided once one of the two hypotheses is this many times as likely as the other."""
MOST_RUNS = 7
"""After this many runs without a decision, the more likely hypothesis counts."""
SHORTEST = 0.5
"""A fault is not made shorter than this, in seconds."""


@dataclass
class Shrinking:
    """Makes a schedule smaller, step by step.

    `smallest`: the smallest schedule so far that shows the finding. `tried`: how many runs the whole schedule and
    the candidates taken since had; `shown`: how many of these showed it. `results`: whether each candidate was taken.
    """

    trial: Trial
    say: Callable[[str], None]
    shown: int = 0
    tried: int = 0
    smallest: Schedule = ()
    results: dict[str, bool] = field(default_factory=dict)

    def confirm(self, schedule: Schedule, *, wanted: int) -> Policy[bool]:
        """Whether the whole schedule shows the finding `wanted` times in at most 2 × `wanted` + 1 runs."""
        self.smallest = schedule
        max_runs = 2 * wanted + 1
        while self.shown < wanted and self.tried < max_runs:
            self.tried += 1
            self.shown += yield from self.trial(schedule)
        return self.shown >= wanted

    def shrink(self) -> Policy[Schedule]:
        """Leave out faults, then shorten the rest, until nothing works or time is up; returns the smallest schedule."""
        try:
            yield from self._leave_out()
            yield from self._shorten()
        except OutOfBudget:
            self.say("no time is left: this is the smallest so far")
        return self.smallest

    def odds(self, results: Sequence[bool]) -> float:
        """The likelihood ratio of a candidate's results: that it shows the finding at the rate of the schedules taken
        so far, against half that rate."""
        # Laplace's rule adds one hit and one miss, since a few runs prove no certainty.
        rate = (self.shown + 1) / (self.tried + 2)
        hits = sum(results)
        return 2.0**hits * ((1 - rate) / (1 - rate / 2)) ** (len(results) - hits)

    def _shows(self, candidate: Schedule, message: str) -> Policy[bool]:
        """Whether a candidate shows the finding reliably; if so, it is taken. `message`: said before the first run."""
        key = repr(candidate)
        if key not in self.results:
            self.say(message)
            results: list[bool] = []
            while 1 / CLEAR_ODDS < self.odds(results) < CLEAR_ODDS and len(results) < MOST_RUNS:
                results.append((yield from self.trial(candidate)))
            self.results[key] = self.odds(results) > 1
            if self.results[key]:
                self.smallest = candidate
                self.shown += sum(results)
                self.tried += len(results)
        return self.results[key]

    def _leave_out(self) -> Policy[None]:
        """Split the schedule into parts, first few, then more, until no part alone and no rest shows the finding."""
        count = 2
        while len(self.smallest) > 1:
            count = min(count, len(self.smallest))
            bounds = pairwise(len(self.smallest) * number // count for number in range(count + 1))
            next_count = yield from self._try_parts([self.smallest[start:end] for start, end in bounds])
            if next_count is not None:
                count = max(2, next_count)
            elif count == len(self.smallest):
                return
            else:
                count *= 2

    def _try_parts(self, parts: Sequence[Schedule]) -> Policy[int | None]:
        """Try each part alone, then the rest without each part, until one shows the finding.

        Returns the number of parts to split the smaller schedule into; None if every part is needed.
        """
        for part in parts:
            if (yield from self._shows(part, f"trying {_named(part)} alone")):
                return 2
        if len(parts) > 2:
            for part in parts:
                # By identity, since a schedule may have equal faults.
                rest = tuple(entry for entry in self.smallest if not any(entry is left_out for left_out in part))
                if (yield from self._shows(rest, f"trying without {_named(part)}")):
                    return len(parts) - 1
        return None

    def _shorten(self) -> Policy[None]:
        """Halve the duration of each fault as long as the finding shows."""
        for index in range(len(self.smallest)):
            while (before := float(self.smallest[index]["duration"])) > SHORTEST:
                half = max(SHORTEST, round(before / 2, 1))
                shorter = {**self.smallest[index], "duration": half}
                candidate = (*self.smallest[:index], shorter, *self.smallest[index + 1 :])
                message = f"trying {_named((shorter,))} for {half:g} s instead of {before:g} s"
                if not (yield from self._shows(candidate, message)):
                    break


def _named(schedule: Schedule) -> str:
    return ", ".join(f"{entry['fault']} {entry['target']} at {entry['at']:g} s" for entry in schedule)
