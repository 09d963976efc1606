"""A lane's transactions over time: a row per transactional id, and how far the last stable offsets are behind.

In a row, height and place say how a transaction ended, as colour does: committed above, aborted below it, in doubt at
the bottom. Where many follow each other closely, a lighter bar stands for all that began and ended there.
"""

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED, IN_DOUBT
from kafka_chaos.harness.report.inputs.series import SHORTEST_GAP_NS
from kafka_chaos.harness.report.inputs.transactions import Bar, TransactionalId, totals
from kafka_chaos.harness.report.pages import join, shapes
from kafka_chaos.harness.report.svg import compact, duration
from kafka_chaos.harness.report.timeline.activity import GRAVE, NOTABLE, ORDINARY, Activity, EventText, gravest
from kafka_chaos.harness.report.timeline.events import Offsets
from kafka_chaos.harness.report.timeline.frame import Frame, Row, compose, describe_faults

_NAMES = {COMMITTED: "committed", ABORTED: "aborted", IN_DOUBT: "in doubt"}
_LONG_NAME = 18


def draw_transactions(
    frame: Frame,
    ids: Sequence[TransactionalId],
    offsets: Sequence[tuple[int, Sequence[Offsets]]],
    *,
    number: int,
    rows: int,
    events: int,
) -> Activity:
    """The picture of at most `rows` transactional ids, and of the offsets of these partitions."""
    shown = _gravest(ids, rows)
    drawn = [Row(33, _row(frame, one)) for one in shown]
    drawn += [Row(38, _offsets(frame, partition, known)) for partition, known in offsets]
    happened, left_out = gravest(frame, [event for one in ids for event in _events(frame, one)], events)
    return Activity(
        heading="Transactions",
        summary=_summary(ids, shown),
        picture=compose(
            frame,
            drawn,
            name=f"transactions-{number}",
            title=f"Transactions of {frame.lane} over time",
            description=_describe(frame, shown, offsets),
        ),
        events=happened,
        left_out=left_out,
    )


def _gravest(ids: Sequence[TransactionalId], most: int) -> list[TransactionalId]:
    """Those with the most transactions that were not committed, if not all can be shown; in their order."""
    by_gravity = sorted(ids, key=lambda one: (-one.count(IN_DOUBT), -one.count(ABORTED), -one.count(COMMITTED)))
    kept = {one.name for one in by_gravity[:most]}
    return [one for one in ids if one.name in kept]


def _counts(ids: Sequence[TransactionalId]) -> str:
    found = totals(ids)
    texts = [f"{found[outcome]:,} {name}" for outcome, name in _NAMES.items() if found[outcome]]
    fenced = sum(one.fenced for one in ids)
    return join(texts) + (f"; {fenced:,} ended in a fenced producer" if fenced else "")


def _summary(ids: Sequence[TransactionalId], shown: Sequence[TransactionalId]) -> str:
    total = sum(totals(ids).values())
    sentence = f"{counted(total, 'transaction')} of {counted(len(ids), 'transactional id')}: {_counts(ids)}."
    if len(shown) < len(ids):
        sentence += f" The {len(shown)} ids with the most transactions that were not committed are drawn."
    return sentence


def _describe(frame: Frame, ids: Sequence[TransactionalId], offsets: Sequence[tuple[int, Sequence[Offsets]]]) -> str:
    parts = describe_faults(frame)
    for one in ids:
        longest = f", the longest took {duration(one.longest_ns)}" if one.longest_ns else ""
        parts.append(f"{one.name}: {_counts([one])}{longest}")
    for partition, known in offsets:
        most, still = max(step.held_back for step in known), _standstill(known)
        waited = f", and stands still for up to {duration(still)}" if still else ""
        parts.append(
            f"partition {partition}: the last stable offset is up to {most:,} behind the high watermark{waited}"
        )
    return "; ".join(parts) or "no transactions"


def _row(frame: Frame, one: TransactionalId) -> Markup:
    name = one.name if len(one.name) <= _LONG_NAME else f"…{one.name[1 - _LONG_NAME :]}"
    words = f"{compact(one.count(COMMITTED))} of {compact(sum(bar.count for bar in one.bars))} committed"
    return Markup(shapes("timeline").transactional_id(frame, one, name, words))


def _offsets(frame: Frame, partition: int, known: Sequence[Offsets]) -> Markup:
    # Of the reports within one pixel, the one that holds back most.
    steps: dict[int, int] = {}
    for step in known:
        x = round(frame.x(step.ts_ns))
        steps[x] = max(steps.get(x, 0), step.held_back)
    return Markup(shapes("timeline").held_back(partition, list(steps.items()), max(steps.values())))


def _standstill(known: Sequence[Offsets]) -> int:
    """The longest time for which the last stable offset stood still below the high watermark, in nanoseconds."""
    longest, since = 0, None
    for before, step in pairwise(known):
        if before.held_back and step.last_stable_offset == before.last_stable_offset:
            since = before.ts_ns if since is None else since
            longest = max(longest, step.ts_ns - since)
        else:
            since = None
    return longest


def _events(frame: Frame, one: TransactionalId) -> list[EventText]:
    """The notable events of a transactional id: takeovers, ends other than commits, and long transactions."""
    events: list[EventText] = [
        (taken.start_ns, NOTABLE, f"producer {taken.producer_id} takes {one.name} over")
        for taken in one.incarnations[1:]
    ]
    for bar in one.bars:
        words = _ending(frame, one, bar)
        if words is not None:
            events.append((bar.begin_ns, *words))
    return events


def _ending(frame: Frame, one: TransactionalId, bar: Bar) -> tuple[int, str] | None:
    """How grave a transaction is, and it in words; None if there is nothing to tell."""
    end_ns = one.ends_at(bar)
    took = None if end_ns is None else end_ns - bar.begin_ns
    is_long = bar.count == 1 and took is not None and took >= SHORTEST_GAP_NS
    if bar.outcome == COMMITTED and not is_long:
        return None
    if bar.outcome == ABORTED and bar.error is None and bar.end_ns is not None and not is_long:
        return None
    what = "a transaction" if bar.count == 1 else f"{bar.count:,} transactions"
    ending = _NAMES[bar.outcome]
    if bar.end_ns is None:
        ending = f"left open, {ending}"
    after = f" after {duration(took)}" if took is not None and bar.count == 1 else ""
    error = f": {bar.error}" if bar.error else ""
    gravity = GRAVE if bar.is_fenced or bar.outcome == IN_DOUBT else NOTABLE if bar.error else ORDINARY
    return gravity, f"{one.name} begins {what}, {ending}{after}{error}"
