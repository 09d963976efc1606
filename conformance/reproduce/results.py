"""How often each claim of the standard matrix, and each breach of an older protocol, was shown on brokers: a file of
results, and the page made of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.conformance.reproduce.breaches.stories import STORIES, BreachStory
from kafka_chaos.conformance.reproduce.claims import Claim
from kafka_chaos.conformance.reproduce.playing.actions import remarks
from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.contract.command.files import write_whole

FORMAT_VERSION = 1
PAGE_SUFFIX = ".md"
Key = tuple[str, str, str]

NO_VERSION = (("kip101-fenced", ("weak_isr", "strong_isr")), ("kip101-fenced", ("followers_agree",)))
"""Variant and invariants of the breaches that no version of Kafka has."""


@dataclass(kw_only=True)
class Plays:
    """How often a trace was `played` to its end or left, and how often it was `shown`.

    `left`: why the last one that was not shown was not.
    """

    played: int = 0
    shown: int = 0
    left: str | None = None

    def note(self, left: str) -> None:
        """Count a play; `left` is empty where it was shown."""
        self.played += 1
        self.shown += not left
        self.left = left or self.left

    @property
    def share(self) -> str:
        """As pages have it."""
        return f"{self.shown} of {self.played}" if self.played else "not yet"

    @property
    def missed(self) -> str | None:
        """Why some were not shown; None if all were."""
        return self.left if self.shown < self.played else None


@dataclass
class ClaimResult(Plays):
    """The plays of a claim's trace.

    `refused`: why it can't be played; `remark`: what is different on brokers from the trace.
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
class BreachResult(Plays):
    """The plays of a breach on a version of Kafka."""

    variant: str
    invariants: str
    kafka: str

    @property
    def key(self) -> Key:
        """That of its breach."""
        return self.variant, self.invariants, self.kafka


def key_of(story: BreachStory, kafka_version: str) -> Key:
    """The key of the plays of a breach on a version."""
    return story.variant, ", ".join(story.invariants), kafka_version


@dataclass
class Results:
    """Results by claim; `kafka` names the cluster that they are from. `breaches`: one for every breach on every version
    that has its variant, in the order of the stories."""

    kafka: str
    of: dict[Key, ClaimResult] = field(default_factory=dict)
    breaches: dict[Key, BreachResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = [key_of(story, version) for story in STORIES for version in story.versions]
        self.breaches = {key: self.breaches.get(key) or BreachResult(*key) for key in keys}

    def add(self, claims: Iterable[Claim], *, refused: Mapping[Key, str | None]) -> None:
        """Take up claims that are not there yet, and whether and how they can be played."""
        for one in claims:
            result = self.of.setdefault(one.key, ClaimResult(*one.key, steps=len(one.story.steps)))
            result.steps, result.refused = len(one.story.steps), refused[one.key]
            result.remark = remarks(one.story)

    def note(self, shown: Mapping[Key, bool], reason: str) -> None:
        """Count a story that was played."""
        for key, is_shown in shown.items():
            self.of[key].note("" if is_shown else reason or "the verification did not find it")

    def save(self, path: Path) -> None:
        """Write the file, a line for each result, and the page beside it."""

        def line(result: Plays) -> str:
            known = {name: value for name, value in asdict(result).items() if value is not None}
            return json.dumps(known, separators=(",", ":"))

        claims, breaches = (",\n".join(map(line, found.values())) for found in (self.of, self.breaches))
        head = json.dumps({"format_version": FORMAT_VERSION, "kafka": self.kafka})[:-1]
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
        claims = [ClaimResult(**entry) for entry in document["claims"]]
        breaches = [BreachResult(**entry) for entry in document.get("breaches", ())]
        return Results(str(document["kafka"]), {one.key: one for one in claims}, {one.key: one for one in breaches})
    except (ValueError, KeyError, TypeError) as error:
        raise UsageFailure(f"{path} holds no results of stories: {error}") from error


def page(results: Results) -> str:
    """The page: what was shown, lane by lane, breach by breach, and why the rest was not."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"capital": lambda text: text[:1].upper() + text[1:], "counted": counted}
    claims = list(results.of.values())
    return environment.get_template("page.md.jinja").render(
        kafka=results.kafka,
        claims=claims,
        missed=_by_reason((one.refused or one.missed, one) for one in claims),
        remarks=_by_reason((one.remark, one) for one in claims),
        stories=STORIES,
        breaches=results.breaches,
        key_of=key_of,
        different=_by_reason((_difference(story), story) for story in STORIES),
        no_version=NO_VERSION,
    )


def _by_reason(found: Iterable[tuple[str | None, Any]]) -> dict[str, list[Any]]:
    reasons = defaultdict(list)
    for reason, one in found:
        if reason:
            reasons[reason].append(one)
    return reasons


def _difference(story: BreachStory) -> str:
    """The steps that brokers need besides the model's shortest trace, or why they can't take it; empty for neither."""
    if story.instead or not story.why_added:
        return story.instead
    added = len(story.steps) - len(story.shortest)
    return f"with {counted(added, 'more step')}: {story.why_added}"
