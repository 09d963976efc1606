"""A group over time: a row per partition with the members that held it, and what the members did.

Where two members believed that they had a partition, the former one's bar goes on below that of the next. Ticks at the
top of a row are commits; a cross is one that was refused, a circle one whose outcome nobody learned.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.harness.report.inputs.groups import Committed, GroupOverTime, Holding
from kafka_chaos.harness.report.inputs.series import SHORTEST_GAP_NS
from kafka_chaos.harness.report.pages import join, shapes
from kafka_chaos.harness.report.svg import duration, lines_apart
from kafka_chaos.harness.report.timeline.activity import GRAVE, NOTABLE, ORDINARY, Activity, EventText, gravest
from kafka_chaos.harness.report.timeline.events import MemberChange
from kafka_chaos.harness.report.timeline.frame import RIGHT, Frame, Row, compose, describe_faults

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
    drawn = [_marks(frame, changes)] if changes else []
    for partition in shown:
        commits = [one for one in group.commits if one.partition == partition]
        drawn.append(Row(_ROW + 3, shapes("timeline").held(frame, partition, held[partition], commits)))
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


@dataclass(frozen=True)
class _Span:
    """A holding as it is drawn: until `end`, and whether it was given back."""

    holding: Holding
    end: int
    is_given_back: bool
    colour: int

    def words(self, frame: Frame) -> str:
        held = self.holding
        first, last = held.generations
        numbers = f" {first}" if first == last else f"s {first} to {last}"
        generation = "" if first is None else f", generation{numbers}"
        ending = "" if self.is_given_back else ", never given back"
        return (
            f"member {held.member} holds partition {held.partition} from {frame.clock(held.start_ns)} to "
            f"{frame.clock(self.end)}{generation}{ending}"
        )


def _spans(frame: Frame, group: GroupOverTime, changes: Sequence[MemberChange], partition: int) -> list[_Span]:
    """Who held a partition, in the order of time. What was never given back ends with its member, or the next one."""
    of_partition = [one for one in group.holdings if one.partition == partition]
    ended = {change.member: change.ts_ns for change in changes if change.change in _NEVER_GIVEN_BACK}
    spans = []
    for index, one in enumerate(of_partition):
        following = of_partition[index + 1].start_ns if index + 1 < len(of_partition) else frame.end_ns
        end = max(one.start_ns, ended.get(one.member, following)) if one.end_ns is None else one.end_ns
        colour = group.members.index(one.member) % _COLOURS
        spans.append(_Span(one, end, one.end_ns is not None, colour))
    return spans


def _marks(frame: Frame, changes: Sequence[MemberChange]) -> Row:
    """The members' changes as marks with words, on as many lines as keep them apart."""
    words = [f"member {change.member} {change.change}" for change in changes]
    places = [(frame.x(change.ts_ns), 6.2 * len(text) + 18) for change, text in zip(changes, words, strict=True)]
    spans = [(x if x + reach <= RIGHT else x - reach, reach) for x, reach in places]
    lines = lines_apart([(left, left + reach) for left, reach in spans], _LINES)
    at_right = [x + reach <= RIGHT for x, reach in places]
    placed = list(zip(words, [change.ts_ns for change in changes], at_right, lines, strict=True))
    height = 14 * max(1, *(1 + line for line in lines if line is not None))
    return Row(max(_ROW, height) + 3, shapes("timeline").members(frame, placed))


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
    for span in sorted(spans, key=lambda span: span.holding.start_ns):
        start = span.holding.start_ns
        if end is not None and start - end >= SHORTEST_GAP_NS:
            gaps.append((end, start))
        end = span.end if end is None else max(end, span.end)
    return gaps


def _describe(frame: Frame, group: GroupOverTime, changes: Sequence[MemberChange], held: dict[int, list[_Span]]) -> str:
    parts = describe_faults(frame)
    parts += [f"member {change.member} {change.change} at {frame.clock(change.ts_ns)}" for change in changes[:12]]
    for partition, spans in held.items():
        states = [f"member {span.holding.member} from {frame.clock(span.holding.start_ns)}" for span in spans[:8]]
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
