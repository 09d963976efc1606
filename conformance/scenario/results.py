"""Results of scenarios as one JSON document, and the index of what was ever run: written whole or not at all, validated
when read, runs counted.

An index has a line for each scenario: how its runs ended and how long they took, the version of Kafka of the last of
them, and digests of that run and of its page. Results and indexes can be read together, and add up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, Literal, Self

from pydantic import BaseModel, ValidationError, model_validator

from kafka_chaos.conformance.scenario.record import FORMAT_VERSION, ScenarioRecord
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION


@dataclass(frozen=True, slots=True)
class Tally:
    """All runs of a scenario: how many had which verdict, and how many seconds each took."""

    conforms: int
    violation: int
    unknown: int
    seconds: tuple[float, ...]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self.conforms + self.violation + self.unknown

    @property
    def verdict(self) -> Verdict:
        """The verdict over all runs; of none: unknown."""
        found = (verdict for verdict in Verdict if getattr(self, verdict.value))
        return Verdict.gravest(found, of_none=Verdict.UNKNOWN)

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return median(self.seconds)

    def plus(self, other: Tally) -> Tally:
        """Both tallies as one."""
        return Tally(
            self.conforms + other.conforms,
            self.violation + other.violation,
            self.unknown + other.unknown,
            (*self.seconds, *other.seconds),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the least, median and most seconds."""
        counts = {"runs": self.runs, "conforms": self.conforms, "violation": self.violation, "unknown": self.unknown}
        times = (min(self.seconds), median(self.seconds), max(self.seconds)) if self.seconds else (None, None, None)
        rounded = [None if time is None else round(time, 1) for time in times]
        return {**counts, "seconds": dict(zip(("min", "median", "max"), rounded, strict=True))}


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The runs of a scenario, and one of them with the verdict of all."""

    record: ScenarioRecord
    tally: Tally

    def plus(self, other: ScenarioResult) -> ScenarioResult:
        """Both results as one; of the runs with the gravest verdict, the later is shown."""
        tally = self.tally.plus(other.tally)
        shown = other if other.record.verdict == tally.verdict else self
        return ScenarioResult(shown.record, tally)


def result_of(record: ScenarioRecord) -> ScenarioResult:
    """One run as a result."""
    counts = {verdict.value: int(record.verdict == verdict) for verdict in Verdict}
    return ScenarioResult(record, Tally(seconds=(round(record.seconds, 1),), **counts))


def collect(results: Iterable[ScenarioResult]) -> dict[str, ScenarioResult]:
    """Results by scenario, in the order in which each scenario first came, runs counted together."""
    found: dict[str, ScenarioResult] = {}
    for result in results:
        name = result.record.scenario
        found[name] = found[name].plus(result) if name in found else result
    return found


def results_json(records: Sequence[ScenarioRecord], *, seconds: float, not_run: Sequence[str] = ()) -> dict[str, Any]:
    """All runs as JSON values. `not_run`: ids of runs that were planned but not made; each counts as `unknown`."""
    verdicts = [*(record.verdict for record in records), *(Verdict.UNKNOWN for _ in not_run)]
    verdict = Verdict.gravest(verdicts, of_none=Verdict.UNKNOWN)
    found = collect(map(result_of, records))
    return {
        "format_version": FORMAT_VERSION,
        "verdict": verdict.value,
        "seconds": round(seconds, 1),
        **({"not_run": list(not_run)} if not_run else {}),
        "counts": [{"scenario": name, **result.tally.to_json()} for name, result in found.items()],
        "scenarios": [record.to_json() for record in records],
    }


@dataclass(frozen=True, slots=True)
class Indexed:
    """A scenario in an index. `run` and `page` are SHA-256 digests: of the run that the page shows, as JSON
    values, and of the page as text."""

    scenario: str
    verdict: Verdict
    runs: Tally
    kafka: str
    run: str
    page: str


def indexed(result: ScenarioResult, page: str) -> Indexed:
    """The entry of a scenario that was run now, in the version of Kafka that runs use."""
    run = json.dumps(result.record.to_json(), sort_keys=True)
    return Indexed(
        result.record.scenario, result.tally.verdict, result.tally, KAFKA_VERSION, digest_of(run), digest_of(page)
    )


def digest_of(text: str) -> str:
    """The first 16 digits of the SHA-256 digest of a text in UTF-8."""
    return sha256(text.encode()).hexdigest()[:16]


def index_json(entries: Iterable[Indexed]) -> dict[str, Any]:
    """An index as JSON values."""
    return {"format_version": FORMAT_VERSION, "index": [asdict(entry) for entry in entries]}


def write_or_refuse(path: Path, text: str) -> None:
    """Write a file, its folder included. Raises `UsageFailure` where it can't be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise UsageFailure(f"{path}: can't be written: {error.strerror}") from error


def dump(document: Mapping[str, Any]) -> str:
    """JSON with a line per scenario, so that a change of one is a change of one line."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.replace('{"scenario":', '\n{"scenario":') + "\n"


def read_results(path: Path) -> tuple[list[ScenarioResult], list[Indexed]]:
    """The results and the index in a file, which has one of them.

    Raises `UsageFailure` with the file, the place in it and what was expected.
    """
    try:
        found = _Results.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageFailure(f"{path}: can't be read: {error.strerror}") from error
    except ValidationError as error:
        lines = [f"{path}: {_place(entry['loc'])}{entry['msg']}" for entry in error.errors()[:5]]
        raise UsageFailure("\n".join(lines)) from error
    return [result_of(one) for one in found.scenarios], found.index


def _place(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return f"{path.lstrip('.')}: " if path else ""


class _Results(BaseModel):
    format_version: Literal[1]
    scenarios: list[ScenarioRecord] = []
    index: list[Indexed] = []

    @model_validator(mode="after")
    def _has_either(self) -> Self:
        if not self.model_fields_set & {"scenarios", "index"}:
            raise ValueError("expected scenarios, or an index of them")
        return self
