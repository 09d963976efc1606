"""Draws the transactions of a lane over time, and the groups that read it, each with what happened in words.

Transactions: a row per transactional id, and a row per partition with the distance from its last stable offset to its
high watermark. Besides the colour, a bar's height and place say how a transaction ended: committed at the top, aborted
below it, in doubt at the bottom. Where many follow each other closely, a lighter bar stands for all of them.

Groups: a row per partition with the members that held it, and what the members did. Where two members believed that
they had a partition, the earlier member's bar continues below the later one's. Ticks at the top of a row are commits; a
cross is a refused commit, a circle a commit whose outcome nobody learned.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from markupsafe import Markup

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED, IN_DOUBT
from kafka_chaos.harness.report.inputs.groups import GroupOverTime, Holding, SimilarCommits
from kafka_chaos.harness.report.inputs.series import SHORTEST_GAP_NS
from kafka_chaos.harness.report.inputs.transactions import Bar, TransactionalId, totals
from kafka_chaos.harness.report.pages import join, shapes
from kafka_chaos.harness.report.svg import compact, duration, lines_apart
from kafka_chaos.harness.report.timeline.events import MemberChange, Offsets
from kafka_chaos.harness.report.timeline.frame import (
    GRAVE,
    NOTABLE,
    ORDINARY,
    RIGHT,
    Activity,
    EventText,
    Frame,
    Row,
    compose,
    describe_faults,
    gravest,
)

_NAMES = {COMMITTED: "committed", ABORTED: "aborted", IN_DOUBT: "in doubt"}
_LONGEST_NAME = 18  # letters of a transactional id that fit beside its row
_ROW_HEIGHT, _ID_HEIGHT, _OFFSETS_HEIGHT = 25, 33, 38  # pixels
_COLOURS = 6  # the members of a group take these colours in turn
_LETTER_WIDTH, _LINE_HEIGHT, _MARK_WIDTH = 6.2, 14, 18  # pixels; letters on average
_MOST_LINES = 3
"""The most lines of words in the row of members; a change that overlaps others on all lines has no words."""
_DEATHS = ("crashes", "is killed")
_TOGETHER_NS = 100_000_000  # equal events of several partitions within this time are told as one

T = TypeVar("T")


def draw_transactions(
    frame: Frame,
    ids: Sequence[TransactionalId],
    offsets: Sequence[tuple[int, Sequence[Offsets]]],
    *,
    number: int,
    rows: int,
    events: int,
) -> Activity:
    """The transactions of `ids`: at most `rows` ids are drawn, and at most `events` events told in words.

    `offsets`: the partitions to draw, with their reported offsets. `number` makes the picture's id unique in the page.
    """
    # If not all ids fit, those with the most uncommitted transactions are shown, in the order of `ids`.
    by_gravity = sorted(
        ids, key=lambda txn_id: (-txn_id.count(IN_DOUBT), -txn_id.count(ABORTED), -txn_id.count(COMMITTED))
    )
    kept = {txn_id.name for txn_id in by_gravity[:rows]}
    shown = [txn_id for txn_id in ids if txn_id.name in kept]
    drawn = [Row(_ID_HEIGHT, _row_of_id(frame, txn_id)) for txn_id in shown]
    drawn += [Row(_OFFSETS_HEIGHT, _row_of_offsets(frame, partition, reports)) for partition, reports in offsets]
    texts = [event for txn_id in ids for event in _events_of_id(frame, txn_id)]
    total = sum(totals(ids).values())
    sentence = f"{counted(total, 'transaction')} of {counted(len(ids), 'transactional id')}: {_tell_counts(ids)}."
    if len(shown) < len(ids):
        sentence += f" The {len(shown)} ids with the most transactions that were not committed are drawn."
    title, described = f"Transactions of {frame.lane} over time", _describe_transactions(frame, shown, offsets)
    picture = compose(frame, drawn, name=f"transactions-{number}", title=title, description=described)
    return Activity("Transactions", sentence, picture, *gravest(frame, texts, events))


def _tell_counts(ids: Sequence[TransactionalId]) -> str:
    by_outcome = totals(ids)
    texts = [f"{by_outcome[outcome]:,} {name}" for outcome, name in _NAMES.items() if by_outcome[outcome]]
    fenced = sum(txn_id.fenced_count for txn_id in ids)
    return join(texts) + (f"; {fenced:,} ended in a fenced producer" if fenced else "")


def _describe_transactions(
    frame: Frame, ids: Sequence[TransactionalId], offsets: Sequence[tuple[int, Sequence[Offsets]]]
) -> str:
    """The picture in words, for readers who can't see it."""
    parts = describe_faults(frame)
    for txn_id in ids:
        longest = f", the longest took {duration(txn_id.longest_ns)}" if txn_id.longest_ns else ""
        parts.append(f"{txn_id.name}: {_tell_counts([txn_id])}{longest}")
    for partition, reports in offsets:
        most, standstill = max(report.held_back for report in reports), _standstill(reports)
        waited = f", and stands still for up to {duration(standstill)}" if standstill else ""
        parts.append(
            f"partition {partition}: the last stable offset is up to {most:,} behind the high watermark{waited}"
        )
    return "; ".join(parts) or "no transactions"


def _row_of_id(frame: Frame, txn_id: TransactionalId) -> Markup:
    name = txn_id.name if len(txn_id.name) <= _LONGEST_NAME else f"…{txn_id.name[1 - _LONGEST_NAME :]}"
    words = f"{compact(txn_id.count(COMMITTED))} of {compact(sum(bar.count for bar in txn_id.bars))} committed"
    return Markup(shapes("timeline").transactional_id(frame, txn_id, name, words))


def _row_of_offsets(frame: Frame, partition: int, reports: Sequence[Offsets]) -> Markup:
    # Of the reports within one pixel, the picture shows the one in which the most offsets are held back.
    steps: dict[int, int] = {}
    for report in reports:
        x = round(frame.x(report.ts_ns))
        steps[x] = max(steps.get(x, 0), report.held_back)
    return Markup(shapes("timeline").held_back(partition, list(steps.items()), max(steps.values())))


def _standstill(reports: Sequence[Offsets]) -> int:
    """The longest time for which the last stable offset stood still below the high watermark, in nanoseconds."""
    longest, since = 0, None
    for before, report in pairwise(reports):
        if before.held_back and report.last_stable_offset == before.last_stable_offset:
            since = before.ts_ns if since is None else since
            longest = max(longest, report.ts_ns - since)
        else:
            since = None
    return longest


def _events_of_id(frame: Frame, txn_id: TransactionalId) -> list[EventText]:
    """A transactional id's new producers, and its transactions that were long, left open, in doubt or failed."""
    events: list[EventText] = [
        (incarnation.start_ns, NOTABLE, f"producer {incarnation.producer_id} takes {txn_id.name} over")
        for incarnation in txn_id.incarnations[1:]
    ]
    for bar in txn_id.bars:
        words = _ending(frame, txn_id, bar)
        if words is not None:
            events.append((bar.begin_ns, *words))
    return events


def _ending(frame: Frame, txn_id: TransactionalId, bar: Bar) -> tuple[int, str] | None:
    """How grave the end of a transaction is, and the transaction in words; None if there is nothing to tell."""
    end_ns = txn_id.ends_at(bar)
    took = None if end_ns is None else end_ns - bar.begin_ns
    is_long = bar.count == 1 and took is not None and took >= SHORTEST_GAP_NS
    is_ordinary_abort = bar.outcome == ABORTED and bar.error is None and bar.end_ns is not None
    if (bar.outcome == COMMITTED or is_ordinary_abort) and not is_long:
        return None
    subject = "a transaction" if bar.count == 1 else f"{bar.count:,} transactions"
    ending = ("left open, " if bar.end_ns is None else "") + _NAMES[bar.outcome]
    after = f" after {duration(took)}" if took is not None and bar.count == 1 else ""
    error = f": {bar.error}" if bar.error else ""
    gravity = GRAVE if bar.is_fenced or bar.outcome == IN_DOUBT else NOTABLE if bar.error else ORDINARY
    return gravity, f"{txn_id.name} begins {subject}, {ending}{after}{error}"


def draw_group(
    frame: Frame, group: GroupOverTime, changes: Sequence[MemberChange], *, name: str, rows: int, events: int
) -> Activity:
    """A group: at most `rows` partitions are drawn, and at most `events` events told. `changes`: what members did."""
    bars = {partition: _spans(frame, group, changes, partition) for partition in group.partitions}
    shown = group.partitions[:rows]
    drawn = [_row_of_changes(frame, changes)] if changes else []
    for partition in shown:
        commits = [commit for commit in group.commits if commit.partition == partition]
        drawn.append(Row(_ROW_HEIGHT + 3, shapes("timeline").held(frame, partition, bars[partition], commits)))
    texts = [(change.ts_ns, NOTABLE, f"member {change.member} {change.change}") for change in changes]
    texts += _events_of_group(group, bars)
    heading = f"Group {group.group}" + ("" if group.lane == frame.lane else f", which reads {group.lane}")
    described = _describe_group(frame, group, changes, {partition: bars[partition] for partition in shown})
    picture = compose(frame, drawn, name=name, title=f"Group {group.group} over time", description=described)
    return Activity(heading, _group_summary(group, shown), picture, *gravest(frame, texts, events))


@dataclass(frozen=True)
class _Span:
    """A bar for a holding, up to the time `end`. `is_released`: whether the member released the partition."""

    holding: Holding
    end: int
    is_released: bool
    colour: int

    def words(self, frame: Frame) -> str:
        holding = self.holding
        first, last = holding.generations
        numbers = f" {first}" if first == last else f"s {first} to {last}"
        generation = "" if first is None else f", generation{numbers}"
        ending = "" if self.is_released else ", never released"
        return (
            f"member {holding.member} holds partition {holding.partition} from {frame.clock(holding.start_ns)} to "
            f"{frame.clock(self.end)}{generation}{ending}"
        )


def _spans(frame: Frame, group: GroupOverTime, changes: Sequence[MemberChange], partition: int) -> list[_Span]:
    """A partition's bars by time. A holding that was never released ends at its member's death, or at the next bar."""
    partition_holdings = [holding for holding in group.holdings if holding.partition == partition]
    ended = {change.member: change.ts_ns for change in changes if change.change in _DEATHS}
    spans = []
    for index, holding in enumerate(partition_holdings):
        following = partition_holdings[index + 1].start_ns if index + 1 < len(partition_holdings) else frame.end_ns
        end = max(holding.start_ns, ended.get(holding.member, following)) if holding.end_ns is None else holding.end_ns
        colour = group.members.index(holding.member) % _COLOURS
        spans.append(_Span(holding, end, holding.end_ns is not None, colour))
    return spans


def _row_of_changes(frame: Frame, changes: Sequence[MemberChange]) -> Row:
    """The members' changes as marks with words, on as many lines as keep them apart."""
    words = [f"member {change.member} {change.change}" for change in changes]
    marks = [frame.x(change.ts_ns) for change in changes]
    widths = [_LETTER_WIDTH * len(text) + _MARK_WIDTH for text in words]
    # Words are at the right of their mark, or at its left if they would not fit into the picture.
    at_right = [x + width <= RIGHT for x, width in zip(marks, widths, strict=True)]
    lefts = [x if right else x - width for x, width, right in zip(marks, widths, at_right, strict=True)]
    lines = lines_apart([(left, left + width) for left, width in zip(lefts, widths, strict=True)], _MOST_LINES)
    placed = list(zip(words, [change.ts_ns for change in changes], at_right, lines, strict=True))
    height = _LINE_HEIGHT * max(1, *(1 + line for line in lines if line is not None))
    return Row(max(_ROW_HEIGHT, height) + 3, shapes("timeline").members(frame, placed))


def _group_summary(group: GroupOverTime, shown: Sequence[int]) -> str:
    """A group's members, partitions, generations and commits in a sentence; `shown`: the partitions that are drawn."""
    by_outcome = {outcome: sum(commit.count for commit in group.commits if commit.outcome == outcome)
                  for outcome in ("ok", "fail", "info")}  # fmt: skip
    names = {"ok": "acknowledged", "fail": "refused", "info": "with an unknown outcome"}
    commits = join(f"{by_outcome[outcome]:,} {name}" for outcome, name in names.items() if by_outcome[outcome])
    texts = [counted(len(group.members), "member"), counted(len(group.partitions), "partition")]
    if group.generations:
        texts.append(counted(len(group.generations), "generation"))
    sentence = f"{', '.join(texts)}. Commits of offsets: {commits or 'none'}."
    if len(shown) < len(group.partitions):
        sentence += f" The first {len(shown)} partitions are drawn."
    return sentence


def _gaps(spans: Sequence[_Span]) -> list[tuple[int, int]]:
    """The times of at least half a second in which nobody held a partition that somebody had held before."""
    gaps: list[tuple[int, int]] = []
    end: int | None = None
    for span in sorted(spans, key=lambda span: span.holding.start_ns):
        start = span.holding.start_ns
        if end is not None and start - end >= SHORTEST_GAP_NS:
            gaps.append((end, start))
        end = span.end if end is None else max(end, span.end)
    return gaps


def _describe_group(
    frame: Frame, group: GroupOverTime, changes: Sequence[MemberChange], bars: dict[int, list[_Span]]
) -> str:
    parts = describe_faults(frame)
    parts += [f"member {change.member} {change.change} at {frame.clock(change.ts_ns)}" for change in changes[:12]]
    for partition, spans in bars.items():
        states = [f"member {span.holding.member} from {frame.clock(span.holding.start_ns)}" for span in spans[:8]]
        nobody = [f"nobody for {duration(end - start)} from {frame.clock(start)}" for start, end in _gaps(spans)[:4]]
        parts.append(f"partition {partition}: {', '.join([*states, *nobody]) or 'nobody'}")
    return "; ".join(parts)


def _events_of_group(group: GroupOverTime, bars: dict[int, list[_Span]]) -> list[EventText]:
    """A group's generations, the partitions that nobody held, and the commits without an acknowledgement."""
    events: list[EventText] = [
        (at_ns, ORDINARY, f"generation {generation} has its first member") for at_ns, generation in group.generations
    ]
    gaps = [(start, end, partition) for partition, spans in bars.items() for start, end in _gaps(spans)]
    for simultaneous in _bundles(sorted(gaps), lambda gap: (gap[0], "gap")):
        partitions = _tell_partitions(partition for _, _, partition in simultaneous)
        shortest = min(end - start for start, end, _ in simultaneous)
        at_least = "at least " if len({end for _, end, _ in simultaneous}) > 1 else ""
        events.append((simultaneous[0][0], NOTABLE, f"nobody holds {partitions} for {at_least}{duration(shortest)}"))
    unacknowledged = [commit for commit in group.commits if commit.outcome != "ok"]
    for commits in _bundles(unacknowledged, lambda commit: (commit.at_ns, (commit.outcome, commit.error))):
        events.append((commits[0].at_ns, GRAVE, _tell_unacknowledged(commits)))
    return events


def _bundles(events: Sequence[T], key: Callable[[T], tuple[int, object]]) -> list[list[T]]:
    """Bundles of events of one kind that begin within `_TOGETHER_NS`. `key` returns an event's time and its kind."""
    bundles: list[list[T]] = []
    latest: dict[object, list[T]] = {}
    for event in events:
        at_ns, kind = key(event)
        bundle = latest.get(kind)
        if bundle is None or at_ns - key(bundle[0])[0] > _TOGETHER_NS:
            bundle = latest[kind] = []
            bundles.append(bundle)
        bundle.append(event)
    return bundles


def _tell_partitions(numbers: Iterable[int]) -> str:
    ordered = sorted(set(numbers))
    return f"partition{'' if len(ordered) == 1 else 's'} {join(str(number) for number in ordered)}"


def _tell_unacknowledged(commits: Sequence[SimilarCommits]) -> str:
    """Commits with one outcome other than `ok`, in words."""
    count = sum(commit.count for commit in commits)
    subject = "a commit" if count == 1 else f"{count:,} commits"
    outcome = "refused" if commits[0].outcome == "fail" else "without an answer"
    error = f": {commits[0].error}" if commits[0].error else ""
    return f"{subject} of {_tell_partitions(commit.partition for commit in commits)} {outcome}{error}"
