"""Where the breaches of the protocol's older variants (docs/model.md) are shown, and why the rest is not."""

from __future__ import annotations

from collections.abc import Mapping

_NOT_YET = (
    "Not played so far: one broker has to get a LeaderAndIsr request and another not, on brokers from 0.11 to 2.0, "
    "which elect preferred leaders by ZooKeeper alone."
)
_NO_RELEASE = "No release has KIP-320's fencing with KIP-101's truncation."

SHOWN: Mapping[tuple[str, str], str] = {
    ("truncate-to-high-watermark", "weak_isr, strong_isr, committed_records_kept"): (
        "[`leader-epoch-A`](scenarios/leader-epoch-A.md), by another way to the same end: a follower drops a committed "
        "record, and leads. [On 0.10.2](scenarios/leader-epoch-A-by-version.md), too."
    ),
    ("truncate-to-high-watermark", "followers_agree"): (
        "[`leader-epoch-B`](scenarios/leader-epoch-B.md): two logs differ for good. "
        "[On 0.10.2](scenarios/leader-epoch-B-by-version.md), too."
    ),
    ("kip101", "weak_isr, strong_isr"): _NOT_YET,
    ("kip101", "committed_records_kept"): _NOT_YET,
    ("kip101", "followers_agree"): _NOT_YET,
    ("kip279", "weak_isr, strong_isr"): _NOT_YET,
    ("kip279", "committed_records_kept"): _NOT_YET,
    ("kip279", "followers_agree"): _NOT_YET,
    ("kip101-fenced", "weak_isr, strong_isr"): _NO_RELEASE,
    ("kip101-fenced", "followers_agree"): _NO_RELEASE,
}
"""By variant and invariants: the scenario that shows the breach, or the reason that none does."""


def section() -> list[str]:
    """The section of the page."""
    lines = [
        "## Breaches of the protocol's variants",
        "",
        "`explore` finds the shortest breach of each invariant in [protocols that Kafka has left behind](model.md). "
        "Scenarios show some of them on brokers:",
        "",
        "| variant | invariant | shown |",
        "| --- | --- | --- |",
    ]
    for (variant, invariants), where in SHOWN.items():
        named = ", ".join(f"`{name}`" for name in invariants.split(", "))
        lines.append(f"| `{variant}` | {named} | {where} |")
    return [*lines, ""]
