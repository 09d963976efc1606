"""Tells what happened to the records of each finding's first cases, from everything that the run directory has.

A case's story is one list in order of time: the record's attempts, acknowledgements and reads, the requests that links
saw, the faults and the changes of its partition, and the nodes' log lines that name the partition. Guarantee: a story
has all moments of the record itself, and the nearest other moments up to `MOST_MOMENTS`; it counts the rest.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from kafka_chaos.contract.run_directory import LOGS_FOLDER
from kafka_chaos.harness.report import matrix
from kafka_chaos.harness.report.inputs.cases import Case, fill_rows, first_cases, log_lines
from kafka_chaos.harness.report.inputs.evidence import Evidence, as_dict
from kafka_chaos.harness.report.inputs.series import FindingRange
from kafka_chaos.harness.report.inputs.trace import TracedRequest
from kafka_chaos.harness.report.pages import join
from kafka_chaos.harness.report.timeline.charts import events_of
from kafka_chaos.harness.report.timeline.events import Timeline
from kafka_chaos.harness.report.timeline.frame import Frame

MOST_MOMENTS = 36
_MOST_OF_A_KIND = 8  # a story has at most this many requests, and as many log lines
_MARGIN_NS = 2_000_000_000
"""A story begins this long before the first moment of its record, and ends this long after the last one."""
_BY_TIME = attrgetter("ts_ns")


class Moment(NamedTuple):
    """One thing that happened, at a time in nanoseconds. `actor`: a client, a node, `cluster` or `fault`.

    `content` by `kind`: `fault`, `cluster`, `log` have a sentence, `request` the request, `sends` and `ends` a row of
    produced/, `reads` a row of consumed/, `takes` a row of deliveries/.
    """

    ts_ns: int
    kind: str
    actor: str
    content: Any


class Story(NamedTuple):
    """A case and its moments, by seconds since the lane's phase began; `left_out` counts the moments without room."""

    case: Case
    moments: Sequence[tuple[float, Moment]] = ()
    left_out: int = 0


Finding = tuple[str, matrix.Cell, Sequence[Story]]
"""A lane, one of its cells in the matrix (an anomaly), and the stories of the cell's first cases."""


def stories_of(
    cells: Sequence[tuple[str, matrix.Cell]],
    evidence: Evidence,
    timeline: Timeline,
    ranges: Sequence[FindingRange],
    requests: Sequence[TracedRequest],
    most: int,
) -> list[Finding]:
    """The stories of the first `most` cells that have cases in findings/. `cells`: (lane, cell)."""
    cases_of = first_cases(ranges)
    with_cases = [(lane, cell) for lane, cell in cells if (lane, cell.anomaly) in cases_of]
    kept = [(lane, cell, cases_of[lane, cell.anomaly]) for lane, cell in with_cases[:most]]
    teller = _StoryTeller(evidence, timeline)
    cases = [teller.with_partition(case) for *_, cell_cases in kept for case in cell_cases]
    fill_rows(cases, evidence.path)
    for request in requests if cases else ():
        for topic, number in request.partitions:
            teller.requests[f"{topic}-{number}"].append(request)
    # Log lines have times since the epoch, and all other moments have times of the machine's monotonic clock.
    monotonic_at_epoch = as_dict(evidence.recorded.get("started")).get("monotonic_at_epoch_ns")
    files = sorted((evidence.path / LOGS_FOLDER).glob("*.log")) if isinstance(monotonic_at_epoch, int) else []
    for ts_ns, node, partition, text in log_lines(files, {*map(teller.partition, cases)}):
        teller.lines[partition].append(Moment(ts_ns + int(monotonic_at_epoch or 0), "log", node, text))
    stories = map(teller.story, cases)  # in the order of `kept`: each cell takes as many as it has cases
    return [(lane, cell, [next(stories) for _ in cell_cases]) for lane, cell, cell_cases in kept]


class _StoryTeller:
    """Tells the story of a case. `requests` and `lines` (of nodes' logs): by partition, such as `orders-0`."""

    def __init__(self, evidence: Evidence, timeline: Timeline) -> None:
        self.evidence, self.timeline = evidence, timeline
        self.requests: defaultdict[str, list[TracedRequest]] = defaultdict(list)
        self.lines: defaultdict[str, list[Moment]] = defaultdict(list)

    def with_partition(self, case: Case) -> Case:
        """The case with partition 0 if its topic has no other: with `acks=0`, producers do not learn partitions."""
        is_sole_partition = as_dict(self.evidence.lanes.get(case.lane)).get("partitions", 1) == 1
        return replace(case, partition=0) if case.partition is None and is_sole_partition else case

    def partition(self, case: Case) -> str:
        """The case's topic and partition, such as `orders-0`."""
        return f"{as_dict(self.evidence.lanes.get(case.lane)).get('topic') or case.lane}-{case.partition}"

    def story(self, case: Case) -> Story:
        own = sorted(_own_moments(case), key=_BY_TIME)
        if not own:
            return Story(case)
        around = self._nearby_moments(case, [moment.ts_ns for moment in own])
        phase = self.timeline.phase_of(case.lane)
        start = phase.start_ns if phase is not None and phase.start_ns is not None else own[0].ts_ns
        told = sorted([*own, *around[: max(0, MOST_MOMENTS - len(own))]], key=_BY_TIME)
        moments = [((moment.ts_ns - start) / 1e9, moment) for moment in told]
        return Story(case, moments, len(own) + len(around) - len(told))

    def _nearby_moments(self, case: Case, times: list[int]) -> list[Moment]:
        """What else happened around the `times` of the record's own moments; the nearest comes first."""
        around = list(self._request_moments(case, min(times), max(times)))
        # A broker that was down truncates its log when it is back, maybe long after: look around the first truncation.
        of_lane = self.timeline.truncations.get(case.lane, {}).items()
        truncations = [one for number, entries in of_lane if case.partition in (None, number) for one in entries]
        cut_at = [one.ts_ns for one in truncations if case.offset is None or one.offset <= case.offset]
        times = times + [ts_ns for ts_ns in cut_at if ts_ns > min(times)][:1]
        first, last = min(times) - _MARGIN_NS, max(times) + _MARGIN_NS

        def distance(moment: Moment) -> int:
            return min(abs(moment.ts_ns - ts_ns) for ts_ns in times)

        changes = events_of(case.lane, self.timeline, Frame(case.lane, first, last, ()), case.partition)
        around += [Moment(ts_ns, "cluster", "cluster", text) for ts_ns, _, text in changes if first <= ts_ns <= last]
        for fault in self.timeline.faults:
            described = f"{fault.name} of {join(fault.request.resolved) or fault.request.target}"
            if fault.concerns(case.lane) and fault.request.ts_ns <= last and (fault.healed_ns or last) >= first:
                around.append(Moment(fault.request.ts_ns, "fault", "fault", f"{described} begins"))
                around += [Moment(fault.healed_ns, "fault", "fault", f"{described} ends")] if fault.healed_ns else []
        # TRACE lines come last: brokers log one for each request of the controller, and other lines say more.
        lines = [line for line in self.lines[self.partition(case)] if distance(line) <= _MARGIN_NS]
        lines = sorted(lines, key=lambda line: (line.content.startswith("TRACE"), distance(line)))[:_MOST_OF_A_KIND]
        return sorted([*around, *lines], key=distance)

    def _request_moments(self, case: Case, first: int, last: int) -> Iterator[Moment]:
        """The requests about a case's partition between two times; requests that faults hit come first."""
        run_start = self.evidence.events[0].ts_ns if self.evidence.events else 0
        since, until = (first - run_start) / 1e9, (last - run_start) / 1e9
        requests = [request for request in self.requests[self.partition(case)] if request.sent_at <= until]
        meanwhile = [request for request in requests if (request.answered_at or request.sent_at) >= since]
        meanwhile.sort(key=lambda request: (request.fault is None, request.api != "Produce", request.sent_at))
        for request in meanwhile[:_MOST_OF_A_KIND]:
            yield Moment(run_start + round(request.sent_at * 1e9), "request", request.sender, request)


def _own_moments(case: Case) -> Iterator[Moment]:
    """When the case's record, or another record at its offset, was sent, got an outcome, was read or was taken."""
    for row in case.rows.get("produced", ()):
        yield Moment(row["invoke_ns"], "sends", f"producer {row['producer_id']}", row)
        if row["complete_ns"] is not None:
            yield Moment(row["complete_ns"], "ends", f"producer {row['producer_id']}", row)
    for row in case.rows.get("consumed", ()):
        yield Moment(row["poll_ns"], "reads", row["consumer"], row)
    for row in case.rows.get("deliveries", ()):
        yield Moment(row["delivered_ns"], "takes", row["member"], row)
