"""How often each claim of the standard matrix was shown on brokers: a file of results, and the page made of it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kafka_chaos.conformance.reproduce.claims import Claim
from kafka_chaos.conformance.reproduce.playing.actions import remarks
from kafka_chaos.conformance.templates import markdown
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import write_whole

FORMAT_VERSION = 1
PAGE_SUFFIX = ".md"
Key = tuple[str, str, str]


@dataclass
class ClaimResult:
    """How often a claim's trace was `played` to its end or left, and how often it was `shown`.

    `left`: why the last one that was not shown was not. `refused`: why it can't be played; `remark`: what is different
    on brokers from the trace.
    """

    played: int = field(default=0, kw_only=True)
    shown: int = field(default=0, kw_only=True)
    left: str | None = field(default=None, kw_only=True)
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

    @property
    def share(self) -> str:
        """As the page has it."""
        return f"{self.shown} of {self.played}" if self.played else "not yet"

    @property
    def missed(self) -> str | None:
        """Why some were not shown; None if all were."""
        return self.left if self.shown < self.played else None


@dataclass
class Results:
    """Results by claim; `kafka` names the cluster that they are from."""

    kafka: str
    of: dict[Key, ClaimResult] = field(default_factory=dict)

    def add(self, claims: Iterable[Claim], *, refused: Mapping[Key, str | None]) -> None:
        """Take up claims that are not there yet, and whether and how they can be played."""
        for one in claims:
            result = self.of.setdefault(one.key, ClaimResult(*one.key, steps=len(one.story.steps)))
            result.steps, result.refused = len(one.story.steps), refused[one.key]
            result.remark = remarks(one.story)

    def note(self, shown: Mapping[Key, bool], reason: str) -> None:
        """Count a story that was played."""
        for key, is_shown in shown.items():
            one = self.of[key]
            one.played += 1
            one.shown += is_shown
            if not is_shown:
                one.left = reason or "the verification did not find it"

    def save(self, path: Path) -> None:
        """Write the file, a line for each result, and the page beside it."""
        known = ({name: value for name, value in asdict(one).items() if value is not None} for one in self.of.values())
        claims = ",\n".join(json.dumps(one, separators=(",", ":")) for one in known)
        head = json.dumps({"format_version": FORMAT_VERSION, "kafka": self.kafka})[:-1]
        write_whole(path, f'{head}, "claims": [\n{claims}\n]}}\n')
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
        return Results(str(document["kafka"]), {one.key: one for one in claims})
    except (ValueError, KeyError, TypeError) as error:
        raise UsageFailure(f"{path} holds no results of stories: {error}") from error


def page(results: Results) -> str:
    """The page: what was shown, lane by lane, and why the rest was not."""
    claims = list(results.of.values())
    return markdown(
        Path(__file__).with_name("page.md.jinja"),
        {},
        kafka=results.kafka,
        claims=claims,
        missed=_by_reason((one.refused or one.missed, one) for one in claims),
        remarks=_by_reason((one.remark, one) for one in claims),
    )


def _by_reason(found: Iterable[tuple[str | None, ClaimResult]]) -> dict[str, list[ClaimResult]]:
    reasons = defaultdict(list)
    for reason, one in found:
        if reason:
            reasons[reason].append(one)
    return reasons
