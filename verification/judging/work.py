"""Asked, attempted, acknowledged: how much of a lane's load came to be, and by which errors the rest did not.

Guarantee: whatever engine judges, the same files are counted. Nothing here changes a verdict: a lane that did little
did not do wrong, but whoever reads its verdict has to know how little was tested.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.run_directory import EXPERIMENT_FILE, RunDirectoryError
from kafka_chaos.verification.inputs.documents.reading import is_given, parsed_yaml, read_object
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.storage import RunPath
from kafka_chaos.verification.recovery.outages import SENT
from kafka_chaos.verification.tables.facts import LaneFacts

Rows = Callable[[str], Sequence[tuple[Any, ...]]]
_ENOUGH = 0.9
"""A lane that attempted a smaller part of what was asked for says so."""


@dataclass(frozen=True, slots=True)
class Work:
    """The records that were asked for, those that a producer attempted and those that were acknowledged.

    `asked`: None where no experiment.yaml says it. `errors`: by table how many rows ended with which error.
    """

    asked: int | None
    attempted: int
    acknowledged: int
    errors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """What the counts alone do not tell: how much less than asked was attempted, and the errors."""
        found = []
        if self.asked and self.attempted < _ENOUGH * self.asked:
            share = f"{self.attempted / self.asked:.0%}"
            found.append(f"attempted {self.attempted:,} of {self.asked:,} records that were asked for ({share})")
        for table, errors in self.errors.items():
            named = ", ".join(f"{name} {count:,}" for name, count in errors.items())
            found.append(f"errors of {'records' if table == 'produced' else table}: {named}")
        return found


def work_of(run: RunDirectory, rows: Rows, facts: Mapping[str, LaneFacts]) -> dict[str, Work]:
    """The work of each lane. `rows` runs a SELECT on the run's tables."""
    spans = {name: phase.load for name, phase in run.events.phases.items()}
    sent = {lane: [pulse.first_ns for pulse in of.pulses if pulse.what == SENT] for lane, of in facts.items()}
    begun = {lane: min(moments) for lane, moments in sent.items() if moments}
    asked = {} if run.path is None else asked_of(run.path / EXPERIMENT_FILE, spans, begun)
    errors = _errors(rows)
    return {
        lane: Work(asked.get(lane), of.total("produced"), of.total("acknowledged"), errors.get(lane, {}))
        for lane, of in facts.items()
    }


def asked_of(path: RunPath, loads: Mapping[str, tuple[int, int] | None], begun: Mapping[str, int]) -> dict[str, int]:
    """By lane, how many records an experiment.yaml asks for: rate × duration, from when the lane's topic is created.

    `loads`: by phase from when to when it loaded its lanes, which is longer than planned where faults took longer.
    `begun`: when each lane sent its first record. It does so before the load counts, while other lanes' clients are on
    their way, and is asked for as much. Not where producers come and go: one that comes later sends its share of the
    rate.
    A phase in steps loads until they are done, and a loop sends what it reads: neither has a number. Nor has a file of
    another form: what a run was to be does not decide what it was.
    """
    if not is_given(path):
        return {}
    asked = {}
    try:
        for phase in read_object(path, parsed_yaml)["phases"]:
            load = phase.get("workload")
            for lane in phase["lanes"] if load and not phase.get("steps") else ():
                if lane.get("loop"):
                    continue
                since, until = loads.get(phase.get("phase", "")) or (0, 0)
                if not any(life["role"] == "producer" for life in lane.get("lives") or ()):
                    since = min(since, begun.get(lane["lane"], since))
                # As long as planned, or as the load lasted if that was longer; less the time without a topic.
                seconds = max(float(load["duration"]), (until - since) / 1e9) - (lane.get("created_at") or 0)
                asked[lane["lane"]] = max(0, round(load["rate"] * seconds))
    except (RunDirectoryError, ArithmeticError, ValueError, TypeError, KeyError, AttributeError):
        return {}
    return asked


def _errors(rows: Rows) -> dict[str, dict[str, dict[str, int]]]:
    """By lane and table the errors, the most frequent first."""
    # What a client says behind the name, such as a time, differs each time.
    named = " UNION ALL ".join(
        f"SELECT lane, '{table}' AS source, SPLIT_PART(error, ': ', 1) AS name FROM {table} WHERE error IS NOT NULL"
        for table in ("produced", "transactions")
    )
    found: dict[str, dict[str, dict[str, int]]] = {}
    counts = f"SELECT lane, source, name, COUNT(*) AS n FROM ({named}) q GROUP BY lane, source, name"
    for lane, table, name, count in rows(f"{counts} ORDER BY source, n DESC, name"):
        found.setdefault(lane, {}).setdefault(table, {})[name] = count
    return found
