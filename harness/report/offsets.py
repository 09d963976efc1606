"""Where in the log the findings are, and which leader epoch dropped or reused their offsets.

Guarantee: a cause is the one that the verification recorded, or none. Only that offsets were assigned again is read
from the elections.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from markupsafe import Markup

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.events import LeaderElected, LogTruncated
from kafka_chaos.contract.lane.families import ALL_ANOMALIES
from kafka_chaos.harness.report.inputs.series import FindingRange, Series
from kafka_chaos.harness.report.pages import join, label, shapes
from kafka_chaos.harness.report.svg import Scale, even_ticks
from kafka_chaos.harness.report.timeline.events import TimelineEvents

LEFT, RIGHT = 150, 992
_REUSED = (Anomaly.INCONSISTENT_OFFSET,)


@dataclass(frozen=True)
class Panel:
    """One partition of a lane, or one producer's sequence where records have no offsets.

    `lines`: ranges of findings for the table under the picture: anomaly, where, how many, and why. `total` counts all
    ranges, also those that `lines` leaves out.
    """

    title: str
    picture: Markup
    lines: Sequence[tuple[str, str, int, str]]
    total: int


def panels(series: Series, timeline_events: TimelineEvents, *, lines: int, most: int) -> dict[str, list[Panel]]:
    """Per lane the panels of its partitions with findings: at most `most` panels with `lines` ranges in words each."""
    groups: dict[tuple[str, int | None, int | None], list[FindingRange]] = {}
    for records in series.ranges:
        if records.anomaly in ALL_ANOMALIES:
            partition = None if records.by_sequence else records.partition
            groups.setdefault((records.lane, partition, records.producer_id), []).append(records)
    order = [anomaly.value for anomaly in ALL_ANOMALIES]
    shown: dict[str, list[Panel]] = {}
    for number, ((lane, partition, producer), ranges) in enumerate(islice(groups.items(), most)):
        if producer is not None:
            title = f"producer {producer}, by sequence number"
        else:
            title = f"partition {partition}, by offset" if partition is not None else "partition not known, by offset"
        place = (lane, partition if partition is not None else -1)
        elections = sorted(timeline_events.elections.get(place, ()), key=lambda won: won.leader_epoch)
        truncations = timeline_events.truncations.get(place, ())
        largest = sorted(ranges, key=lambda records: -records.count)[:lines]
        listed = sorted(largest, key=lambda records: (order.index(records.anomaly), records.first))
        panel = Panel(
            title=title,
            picture=_draw(f"{lane}, {title}", ranges, elections, truncations, series.ends.get(place), number),
            lines=[
                (label(records.anomaly), records.where, records.count, cause(records, elections)) for records in listed
            ],
            total=len(ranges),
        )
        shown.setdefault(lane, []).append(panel)
    return shown


def cause(records: FindingRange, elections: Sequence[LeaderElected]) -> str:
    """Why these records were lost, stored twice, or why their offsets were used again."""
    begin = max(
        (won for won in elections if won.leader_epoch > 0 and won.start_offset <= records.first),
        key=lambda won: (won.start_offset, -won.leader_epoch),
        default=None,
    )
    first = f"irst case: {records.cause}." if records.cause else "or the first case, no cause is recorded."
    if records.anomaly in _REUSED and begin is not None and not records.by_sequence:
        return (
            f"From offset {begin.start_offset:,} on, broker {begin.broker} assigned the offsets again in leader epoch "
            f"{begin.leader_epoch}; f{first}"
        )
    return f"F{first}"


def _draw(
    name: str,
    ranges: Sequence[FindingRange],
    elections: Sequence[LeaderElected],
    truncations: Sequence[LogTruncated],
    end: int | None,
    number: int,
) -> Markup:
    starts = [won.start_offset for won in elections]
    high = max([end or 0, *starts, *(records.last for records in ranges)]) + 1
    x = Scale(0, high, LEFT, RIGHT)
    by_anomaly = [(anomaly, [records for records in ranges if records.anomaly == anomaly]) for anomaly in ALL_ANOMALIES]
    findings = [finding.words for finding in ranges[:10]]
    epochs = [f"epoch {won.leader_epoch} of broker {won.broker} from {won.start_offset:,}" for won in elections[:10]]
    cuts = [f"broker {cut.broker} truncated to {cut.offset:,}" for cut in truncations[:10]]
    sentences = [*findings, *([join(epochs)] if epochs else []), *([join(cuts)] if cuts else [])]
    drawn: str = shapes("offsets").offsets(
        x,
        [(anomaly, findings) for anomaly, findings in by_anomaly if findings],
        elections,
        end,
        truncations,
        [(x(tick), f"{tick:,}") for tick in even_ticks(0, high)],
        f"offsets-{number}",
        name,
        "; ".join(sentences),
    )
    return Markup(drawn.strip())
