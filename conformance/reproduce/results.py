"""How often each claim of the standard matrix was shown on brokers: a file of results, and the page made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.conformance.reproduce.breaches.results import BreachResult, Plays, all_of, section
from kafka_chaos.conformance.reproduce.breaches.results import Key as BreachKey
from kafka_chaos.conformance.reproduce.playing.refusals import remarks
from kafka_chaos.conformance.reproduce.stories.claims import Claim
from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.files import write_whole

FORMAT_VERSION = 1
PAGE_SUFFIX = ".md"
Key = tuple[str, str, str]


@dataclass
class Result(Plays):
    """A claim, and the plays of its story.

    `refused`: why it can't be played; `remark`: what is different on brokers from the story.
    """

    lane: str
    faults: str
    anomaly: str
    steps: int
    refused: str | None = None
    remark: str | None = None

    @property
    def key(self) -> Key:
        """That of its claim."""
        return self.lane, self.faults, self.anomaly


@dataclass
class Results:
    """Results by claim; `kafka` names the cluster that they are from. `breaches`: those of breaches, on older ones."""

    kafka: str
    of: dict[Key, Result] = field(default_factory=dict)
    breaches: dict[BreachKey, BreachResult] = field(default_factory=lambda: all_of(()))

    def add(self, claims: Iterable[Claim], *, refused: Mapping[Key, str | None]) -> None:
        """Take up claims that are not there yet, and whether and how they can be played."""
        for one in claims:
            result = self.of.setdefault(one.key, Result(*one.key, steps=len(one.story.steps)))
            result.steps, result.refused = len(one.story.steps), refused[one.key]
            result.remark = remarks(one.story)

    def note(self, shown: Mapping[Key, bool], reason: str) -> None:
        """Count a story that was played."""
        for key, is_shown in shown.items():
            self.of[key].note("" if is_shown else reason or "the verification did not find it")

    def to_json(self) -> dict[str, Any]:
        """The file's content."""
        return {
            "format_version": FORMAT_VERSION,
            "kafka": self.kafka,
            "claims": [asdict(result) for result in self.of.values()],
            "breaches": [asdict(result) for result in self.breaches.values()],
        }

    def save(self, path: Path) -> None:
        """Write the file, and the page beside it."""
        document = self.to_json()
        claims, breaches = (",\n".join(map(json.dumps, document.pop(key))) for key in ("claims", "breaches"))
        head = json.dumps(document)[:-1]
        write_whole(path, f'{head}, "claims": [\n{claims}\n], "breaches": [\n{breaches}\n]}}\n')
        write_whole(path.with_suffix(PAGE_SUFFIX), page(self))


def load(path: Path, kafka: str) -> Results:
    """The results in a file, none if it is not there; raises `UsageFailure` for a file of something else."""
    if not path.exists():
        return Results(kafka)
    try:
        document = json.loads(path.read_text("utf-8"))
        if document["format_version"] != FORMAT_VERSION:
            raise ValueError("its format_version is another")
        results = [Result(**entry) for entry in document["claims"]]
        breaches = [BreachResult(**entry) for entry in document.get("breaches", ())]
        return Results(str(document["kafka"]), {one.key: one for one in results}, all_of(breaches))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageFailure(f"{path} holds no results of stories: {error}") from error


def page(results: Results) -> str:
    """The page: what was shown, lane by lane, and why the rest was not."""
    found = list(results.of.values())
    shown = [one for one in found if one.shown]
    lines = [
        "# Stories on brokers",
        "",
        "<!-- Written by `kafka-chaos reproduce --matrix`: do not edit. -->",
        "",
        "What [the model](model.md) permits is a claim until brokers have shown it. Here its shortest story of each "
        "permitted anomaly of the standard matrix was [played step by step](guides/reproduce.md) on "
        f"{results.kafka}. After each step the brokers were in the state that the model tells, and the verification "
        "found the anomaly in what they left.",
        "",
        f"**{len(shown)} of {len(found)} claims are shown.** The tables say how often, of how many times that their "
        "stories were played. A story that several settings share is played for all of them at once.",
        "",
    ]
    for lane in dict.fromkeys(one.lane for one in found):
        lines += [f"## {lane}", "", "| faults | anomaly | steps | shown |", "| --- | --- | ---: | --- |"]
        lines += [_row(one) for one in found if one.lane == lane]
        lines.append("")
    return "\n".join([*lines, *_reasons(found), *section(results.breaches.values())]).rstrip() + "\n"


def _row(one: Result) -> str:
    share = "not played" if one.refused is not None else one.share
    return f"| {one.faults or 'none'} | `{one.anomaly}` | {one.steps} | {share} |"


def _reasons(found: Sequence[Result]) -> list[str]:
    """The sections about what was not shown, and about what is different on brokers."""
    left: dict[str, list[Result]] = {}
    different: dict[str, list[Result]] = {}
    for one in found:
        reason = one.refused or one.missed
        if reason is not None:
            left.setdefault(reason, []).append(one)
        if one.remark is not None:
            different.setdefault(one.remark, []).append(one)
    return [*_listed("What was not shown, and why", left), *_listed("What is different on brokers", different)]


def _listed(title: str, reasons: Mapping[str, Sequence[Result]]) -> list[str]:
    if not reasons:
        return []
    lines = [f"## {title}", ""]
    for reason, results in reasons.items():
        where = "; ".join(f"{one.lane}, {one.faults or 'no fault'}: `{one.anomaly}`" for one in results)
        lines.append(f"- {where}. {reason[:1].upper()}{reason[1:]}")
    return [*lines, ""]
