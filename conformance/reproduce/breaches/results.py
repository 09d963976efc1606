"""How often each breach was shown on brokers of its time, and the section of the page about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_chaos.conformance.reproduce.breaches.stories import STORIES, BreachStory
from kafka_chaos.contract.errors import counted

Key = tuple[str, str, str]

NO_VERSION = (("kip101-fenced", ("weak_isr", "strong_isr")), ("kip101-fenced", ("followers_agree",)))
"""Variant and invariants of the breaches that no version of Kafka has."""
_WHY_NO_VERSION = (
    "No version has the variant `kip101-fenced`, which shows that KIP-320's fencing does not make up for KIP-279: a "
    "follower sends its leader epoch with its requests (KIP-320) from inter.broker.protocol.version 2.1 on, and from "
    "2.0 on it truncates to the last common epoch (KIP-279). What it breaks, {breaches}, was shown of `kip101`: the "
    "model takes the same steps under `kip101-fenced`, where none of them is fenced."
)

DEFECTS: Mapping[str, str] = {
    "librdkafka-4953": "shown by [an experiment](findings.md)",
    "KAFKA-15591": "shown by the stories above that say so",
    "KAFKA-17754": "shown by [an experiment](findings.md) and by [`txn-late-end`](scenarios/txn-late-end.md)",
    "KAFKA-14402": "shown by a test: 2.8.2 appends the late record behind the abort marker, and consumers of committed "
    "records get no further; 3.9.1 refuses it",
}
"""Where each known defect is shown, or that it is not."""


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
    """What tells the plays of a breach on a version from others."""
    return story.variant, ", ".join(story.invariants), kafka_version


def all_of(found: Iterable[BreachResult]) -> dict[Key, BreachResult]:
    """The results by key: one for every breach on every version that has its variant, in the order of the stories."""
    known = {one.key: one for one in found}
    keys = [key_of(story, version) for story in STORIES for version in story.versions]
    return {key: known.get(key) or BreachResult(*key) for key in keys}


def section(results: Iterable[BreachResult]) -> list[str]:
    """The section of the page."""
    by_story: dict[tuple[str, str], list[BreachResult]] = {}
    for one in all_of(results).values():
        by_story.setdefault((one.variant, one.invariants), []).append(one)
    lines = [
        "## Breaches of the protocol's variants",
        "",
        "`explore` finds the shortest breach of each invariant in [protocols that Kafka has left behind](model.md). "
        "Here each was played on versions of Kafka that have the protocol: links hold what controllers tell brokers "
        "(LeaderAndIsr) and what leaders answer to fetches, until its step. After each step, every broker's segments, "
        "high watermark and role, and the ISR in ZooKeeper, were those of the model, whose last state breaks the "
        "invariant. The scenarios [`leader-epoch-A`](scenarios/leader-epoch-A-by-version.md) and "
        "[`leader-epoch-B`](scenarios/leader-epoch-B-by-version.md) get to two of them by restarts.",
        "",
        "| variant | breaks | steps | shown on |",
        "| --- | --- | ---: | --- |",
    ]
    for story in STORIES:
        found = by_story[story.variant, ", ".join(story.invariants)]
        share = "; ".join(f"{one.kafka}: {one.share}" for one in found)
        lines.append(f"| `{story.variant}` | {_named(story.invariants)} | {len(story.steps)} | {share} |")
    return [*lines, "", *_different(), *_not_shown(by_story), *_defects()]


def _different() -> list[str]:
    """What brokers need more than the model's shortest story, and what they can't do."""
    lines = ["### What is different from the model's shortest breach", ""]
    for reason, stories in _by_reason(STORIES).items():
        named = "; ".join(f"`{story.variant}`, {_named(story.invariants)}" for story in stories)
        lines.append(f"- {named}. {reason[:1].upper()}{reason[1:]}.")
    return [*lines, ""]


def _by_reason(stories: Sequence[BreachStory]) -> dict[str, list[BreachStory]]:
    found: dict[str, list[BreachStory]] = {}
    for story in stories:
        if story.instead:
            reason = story.instead
        elif story.why_added:
            added = sum(step not in story.shortest for step in story.steps)
            reason = f"with {counted(added, 'more step')}: {story.why_added}"
        else:
            continue
        found.setdefault(reason, []).append(story)
    return found


def _not_shown(by_story: Mapping[tuple[str, str], Sequence[BreachResult]]) -> list[str]:
    breaches = " and ".join(_named(invariants) for _, invariants in NO_VERSION)
    lines = ["### What no version shows, and what was not shown", "", f"- {_WHY_NO_VERSION.format(breaches=breaches)}"]
    for (variant, invariants), results in by_story.items():
        for one in results:
            if one.missed is not None:
                times = counted(one.played - one.shown, "time")
                lines.append(f"- `{variant}`, {_named(invariants.split(', '))} on {one.kafka}, {times}: {one.missed}")
    return [*lines, ""]


def _defects() -> list[str]:
    lines = [
        "### Known defects",
        "",
        "[Known defects](model.md#known-defects) of clients and brokers are told by `predict`, and shown elsewhere:",
        "",
    ]
    return [*lines, *(f"- `{defect}`: {where}." for defect, where in DEFECTS.items()), ""]


def _named(invariants: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in invariants)
