"""A group over time: a row per partition with the members that held it, and what the members did.

Where two members believed that they had a partition, the former one's bar goes on below that of the next. Ticks at the
top of a row are commits; a cross is one that was refused, a circle one whose outcome nobody learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from markupsafe import Markup

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.harness.report.inputs.groups import Committed, GroupOverTime, Holding
from kafka_chaos.harness.report.inputs.series import SHORTEST_GAP_NS
from kafka_chaos.harness.report.pages import join
from kafka_chaos.harness.report.svg import duration, element, state
from kafka_chaos.harness.report.timeline.activity import GRAVE, NOTABLE, ORDINARY, Activity, EventText, cross, gravest
from kafka_chaos.harness.report.timeline.events import MemberChange
from kafka_chaos.harness.report.timeline.frame import LEFT, RIGHT, Frame, Row, compose, describe_faults, row_name

_ROW = 25
_COLOURS = 6
_LINES = 3
"""Most lines of words above each other in the row of members; what then still overlaps has a mark without words."""
_NEVER_GIVEN_BACK = ("crashes", "is killed")
_TOGETHER_NS = 100_000_000
"""Changes of several partitions within this time are shown once."""

T = TypeVar("T")


def draw_group(
    frame: Frame, group: GroupOverTime, changes: Sequence[MemberChange], *, name: str, rows: int, events: int
) -> Activity:
    """The picture of a group with at most `rows` partitions; `changes` are what its members did."""
    held = {partition: _spans(frame, group, changes, partition) for partition in group.partitions}
    shown = group.partitions[:rows]
    marks, lines = _marks(frame, changes)
    drawn = [Row(max(_ROW, 14 * lines) + 3, marks)] if changes else []
    drawn += [Row(_ROW + 3, partial(_row, frame, group, partition, held[partition])) for partition in shown]
    texts = [(change.ts_ns, NOTABLE, f"member {change.member} {change.change}") for change in changes]
    texts += _events(group, held)
    happened, left_out = gravest(frame, texts, events)
    return Activity(
        heading=f"Group {group.group}" + ("" if group.lane == frame.lane else f", which reads {group.lane}"),
        summary=_summary(group, shown),
        picture=compose(
            frame,
            drawn,
            name=name,
            title=f"Group {group.group} over time",
            description=_describe(frame, group, changes, {partition: held[partition] for partition in shown}),
        ),
        events=happened,
        left_out=left_out,
    )


class _Span:
    """A holding as it is drawn: from `start` to `end`, and whether it was given back."""

    __slots__ = ("end", "holding", "is_given_back", "start")

    def __init__(self, holding: Holding, end: int, is_given_back: bool) -> None:
        self.holding = holding
        self.start = holding.start_ns
        self.end = end
        self.is_given_back = is_given_back


def _spans(frame: Frame, group: GroupOverTime, changes: Sequence[MemberChange], partition: int) -> list[_Span]:
    """Who held a partition, in the order of time. What was never given back ends with its member, or the next one."""
    of_partition = [one for one in group.holdings if one.partition == partition]
    ended = {change.member: change.ts_ns for change in changes if change.change in _NEVER_GIVEN_BACK}
    spans = []
    for index, one in enumerate(of_partition):
        if one.end_ns is not None:
            spans.append(_Span(one, one.end_ns, True))
            continue
        following = of_partition[index + 1].start_ns if index + 1 < len(of_partition) else frame.end_ns
        end = ended.get(one.member, following)
        spans.append(_Span(one, max(one.start_ns, end), False))
    return spans


def _row(frame: Frame, group: GroupOverTime, partition: int, spans: Sequence[_Span], top: float) -> list[Markup]:
    drawn = row_name(f"partition {partition}", "who holds it", top)
    drawn.append(element("rect", x=LEFT, y=top, width=RIGHT - LEFT, height=_ROW - 2, class_="track"))
    behind: list[Markup] = []
    for index, span in enumerate(spans):
        colour = group.members.index(span.holding.member) % _COLOURS
        words, names = _words(frame, span), (f"member {span.holding.member}", span.holding.member)
        left, right = frame.x(span.start), frame.x(span.end)
        drawn += state(left, right, top, _ROW - 2, words, names, f"holds member-{colour}")
        following = spans[index + 1].start if index + 1 < len(spans) else span.end
        if following < span.end:
            behind += state(frame.x(following), right, top + 15, 8, words, (), f"holds still member-{colour}")
        if not span.is_given_back:
            behind.append(element("path", element("title", words), d=cross(right, top + 12), class_="ended"))
    return [*drawn, *behind, *_commits(frame, group, partition, top)]


def _words(frame: Frame, span: _Span) -> str:
    first, last = span.holding.generations
    numbers = f" {first}" if first == last else f"s {first} to {last}"
    generation = "" if first is None else f", generation{numbers}"
    ending = "" if span.is_given_back else ", never given back"
    return (
        f"member {span.holding.member} holds partition {span.holding.partition} from {frame.clock(span.start)} to "
        f"{frame.clock(span.end)}{generation}{ending}"
    )


def _commits(frame: Frame, group: GroupOverTime, partition: int, top: float) -> list[Markup]:
    of_partition = [one for one in group.commits if one.partition == partition]
    places = {outcome: [frame.x(one.at_ns) for one in of_partition if one.outcome == outcome]
              for outcome in ("ok", "fail", "info")}  # fmt: skip
    drawn = []
    if places["ok"]:
        ticks = "".join(f"M{x:.1f} {top:.1f}v5" for x in places["ok"])
        drawn.append(element("path", d=ticks, class_="commit"))
    if places["fail"]:
        drawn.append(element("path", d="".join(cross(x, top + 5) for x in places["fail"]), class_="refused"))
    if places["info"]:
        circles = "".join(f"M{x - 3:.1f} {top + 5:.1f}a3 3 0 1 0 6 0a3 3 0 1 0-6 0" for x in places["info"])
        drawn.append(element("path", d=circles, class_="commit unknown"))
    return drawn


def _marks(frame: Frame, changes: Sequence[MemberChange]) -> tuple[partial[list[Markup]], int]:
    """The members' changes as marks with words, on as many lines as keep them apart; and the number of these lines."""
    ends: list[float] = []
    placed: list[tuple[MemberChange, float, int | None]] = []
    for change in changes:
        x = frame.x(change.ts_ns)
        reach = 6.2 * len(_short(change)) + 18
        left = x if x + reach <= RIGHT else x - reach
        line = next((index for index, end in enumerate(ends) if end <= left), None)
        if line is None and len(ends) < _LINES:
            line = len(ends)
            ends.append(0.0)
        if line is not None:
            ends[line] = left + reach
        placed.append((change, x, line))
    return partial(_draw_marks, frame, placed), max(1, len(ends))


def _draw_marks(frame: Frame, placed: Sequence[tuple[MemberChange, float, int | None]], top: float) -> list[Markup]:
    drawn = row_name("members", "what they did", top)
    for change, x, line in placed:
        words = element("title", f"member {change.member} {change.change} at {frame.clock(change.ts_ns)}")
        y = top + 7 + 14 * (line or 0)
        drawn.append(element("path", words, d=f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5-5z", class_="change"))
        if line is not None:
            at_right = x + 6.2 * len(_short(change)) + 18 <= RIGHT
            place, anchor = (x + 8, "start") if at_right else (x - 8, "end")
            drawn.append(element("text", _short(change), x=place, y=y + 4, class_="state-name inside",
                                 text_anchor=anchor))  # fmt: skip
    return drawn


def _short(change: MemberChange) -> str:
    return f"member {change.member} {change.change}"


def _summary(group: GroupOverTime, shown: Sequence[int]) -> str:
    by_outcome = {outcome: sum(one.count for one in group.commits if one.outcome == outcome)
                  for outcome in ("ok", "fail", "info")}  # fmt: skip
    names = {"ok": "acknowledged", "fail": "refused", "info": "with an unknown outcome"}
    commits = join(f"{by_outcome[outcome]:,} {name}" for outcome, name in names.items() if by_outcome[outcome])
    texts = [counted(len(group.members), "member"), counted(len(group.partitions), "partition")]
    if group.rebalances:
        texts.append(counted(len(group.rebalances), "generation"))
    sentence = f"{', '.join(texts)}. Commits of offsets: {commits or 'none'}."
    if len(shown) < len(group.partitions):
        sentence += f" The first {len(shown)} partitions are drawn."
    return sentence


def _gaps(spans: Sequence[_Span]) -> list[tuple[int, int]]:
    """The times of at least half a second in which nobody held a partition that somebody had held before."""
    gaps: list[tuple[int, int]] = []
    end: int | None = None
    for span in sorted(spans, key=lambda span: span.start):
        if end is not None and span.start - end >= SHORTEST_GAP_NS:
            gaps.append((end, span.start))
        end = span.end if end is None else max(end, span.end)
    return gaps


def _describe(frame: Frame, group: GroupOverTime, changes: Sequence[MemberChange], held: dict[int, list[_Span]]) -> str:
    parts = describe_faults(frame)
    parts += [f"member {change.member} {change.change} at {frame.clock(change.ts_ns)}" for change in changes[:12]]
    for partition, spans in held.items():
        states = [f"member {span.holding.member} from {frame.clock(span.start)}" for span in spans[:8]]
        nobody = [f"nobody for {duration(end - start)} from {frame.clock(start)}" for start, end in _gaps(spans)[:4]]
        parts.append(f"partition {partition}: {', '.join([*states, *nobody]) or 'nobody'}")
    return "; ".join(parts)


def _events(group: GroupOverTime, held: dict[int, list[_Span]]) -> list[EventText]:
    """Rebalances, partitions that nobody held, and commits that were not acknowledged."""
    events: list[EventText] = [
        (at_ns, ORDINARY, f"generation {generation} begins for the first member")
        for at_ns, generation in group.rebalances
    ]
    gaps = [(start, end, partition) for partition, spans in held.items() for start, end in _gaps(spans)]
    for of_gap in _together(sorted(gaps), lambda gap: (gap[0], None)):
        partitions = _partitions(gap[2] for gap in of_gap)
        shortest = min(end - start for start, end, _ in of_gap)
        least = "at least " if len({end for _, end, _ in of_gap}) > 1 else ""
        events.append((of_gap[0][0], NOTABLE, f"nobody holds {partitions} for {least}{duration(shortest)}"))
    refused = [one for one in group.commits if one.outcome != "ok"]
    for commits in _together(refused, lambda one: (one.at_ns, (one.outcome, one.error))):
        events.append((commits[0].at_ns, GRAVE, _refused(commits)))
    return events


def _together(ones: Sequence[T], key: Callable[[T], tuple[int, object]]) -> list[list[T]]:
    """In order of time, those that are alike and no further than `_TOGETHER_NS` from the first of them."""
    runs: list[list[T]] = []
    open_runs: dict[object, list[T]] = {}
    for one in ones:
        at_ns, kind = key(one)
        run = open_runs.get(kind)
        if run is None or at_ns - key(run[0])[0] > _TOGETHER_NS:
            run = open_runs[kind] = []
            runs.append(run)
        run.append(one)
    return runs


def _partitions(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return f"partition{'' if len(found) == 1 else 's'} {join(str(number) for number in found)}"


def _refused(commits: Sequence[Committed]) -> str:
    count = sum(one.count for one in commits)
    what = "a commit" if count == 1 else f"{count:,} commits"
    outcome = "refused" if commits[0].outcome == "fail" else "without an answer"
    error = f": {commits[0].error}" if commits[0].error else ""
    return f"{what} of {_partitions(one.partition for one in commits)} {outcome}{error}"
