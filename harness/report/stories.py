"""Tells what happened to the records of each finding's first cases, from everything that the run directory has.

A case's story is one list in order of time: the record's attempts, acknowledgements and reads, the requests that links
saw, the faults and the changes of its partition, and the nodes' log lines that name the partition. Guarantee: it has no
more than `MOST_MOMENTS` moments, those nearest to what happened to the record, and counts what it leaves out.
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
from kafka_chaos.harness.report.inputs.trace import Traced
from kafka_chaos.harness.report.pages import join
from kafka_chaos.harness.report.timeline.charts import events_of
from kafka_chaos.harness.report.timeline.events import Timeline
from kafka_chaos.harness.report.timeline.frame import Frame

MOST_MOMENTS = 36
_OF_A_KIND = 8
"""Most requests, and most log lines, of a story."""
_MARGIN_NS = 2_000_000_000
"""How long before the first and after the last thing that happened to a record its story begins and ends."""


class Moment(NamedTuple):
    """One thing that happened, at a time in nanoseconds.

    `what` is a sentence (`kind` fault, cluster or log), a request (request), or a row of produced/ (sends, ends),
    consumed/ (reads) or deliveries/ (takes).
    """

    ts_ns: int
    kind: str
    who: str
    what: Any


_TIME = attrgetter("ts_ns")


class Story(NamedTuple):
    """A case, and what happened, with the time in seconds since the lane's phase began."""

    case: Case
    moments: Sequence[tuple[float, Moment]] = ()
    left_out: int = 0


Finding = tuple[str, matrix.Cell, Sequence[Story]]
"""A lane and a cell of it, with the stories of the cell's first cases."""


def stories_of(
    cells: Sequence[tuple[str, matrix.Cell]],
    evidence: Evidence,
    timeline: Timeline,
    ranges: Sequence[FindingRange],
    requests: Sequence[Traced],
    most: int,
) -> list[Finding]:
    """The first `most` of these lanes' cells that have cases in `findings/`, with their stories."""
    found = first_cases(ranges)
    kept = [(lane, cell, found[lane, cell.anomaly]) for lane, cell in cells if (lane, cell.anomaly) in found][:most]
    teller = _Teller(evidence, timeline)
    cases = [teller.placed(case) for *_, of_cell in kept for case in of_cell]
    fill_rows(cases, evidence.path)
    for request in requests if cases else ():
        for topic, number in request.partitions:
            teller.requests[f"{topic}-{number}"].append(request)
    at_epoch = as_dict(evidence.recorded.get("started")).get("monotonic_at_epoch_ns")
    files = sorted((evidence.path / LOGS_FOLDER).glob("*.log")) if isinstance(at_epoch, int) else []
    for ts_ns, node, partition, text in log_lines(files, {*map(teller.partition, cases)}):
        teller.lines[partition].append(Moment(ts_ns + int(at_epoch or 0), "log", node, text))
    stories = map(teller.story, cases)
    return [(lane, cell, [next(stories) for _ in of_cell]) for lane, cell, of_cell in kept]


class _Teller:
    """Tells cases. `requests`, and `lines` of nodes' logs: by partition of a topic, such as `orders-0`."""

    def __init__(self, evidence: Evidence, timeline: Timeline) -> None:
        self.evidence, self.timeline = evidence, timeline
        self.requests: defaultdict[str, list[Traced]] = defaultdict(list)
        self.lines: defaultdict[str, list[Moment]] = defaultdict(list)

    def placed(self, case: Case) -> Case:
        """The case with its partition: a producer that awaits no acknowledgement learns none of the only one."""
        only = as_dict(self.evidence.lanes.get(case.lane)).get("partitions", 1) == 1
        return replace(case, partition=0) if case.partition is None and only else case

    def partition(self, case: Case) -> str:
        return f"{as_dict(self.evidence.lanes.get(case.lane)).get('topic') or case.lane}-{case.partition}"

    def story(self, case: Case) -> Story:
        own = sorted(_of_record(case), key=_TIME)
        if not own:
            return Story(case)
        around = self._around(case, [moment.ts_ns for moment in own])
        phase = self.timeline.phase_of(case.lane)
        start = phase.start_ns if phase is not None and phase.start_ns is not None else own[0].ts_ns
        told = sorted([*own, *around[: max(0, MOST_MOMENTS - len(own))]], key=_TIME)
        moments = [((moment.ts_ns - start) / 1e9, moment) for moment in told]
        return Story(case, moments, len(own) + len(around) - len(told))

    def _around(self, case: Case, times: list[int]) -> list[Moment]:
        """What happened around a record, to which something happened at these `times`: the nearest comes first."""
        around = list(self._requested(case, min(times), max(times)))
        # A broker that was down drops what the others lack when it is back, long after clients saw the record.
        times += [
            cut.ts_ns
            for partition, cuts in self.timeline.truncations.get(case.lane, {}).items()
            for cut in cuts
            if case.partition in (None, partition)
            and cut.ts_ns > min(times)
            and (case.offset is None or cut.offset <= case.offset)
        ][:1]
        first, last = min(times) - _MARGIN_NS, max(times) + _MARGIN_NS

        def distance(moment: Moment) -> int:
            return min(abs(moment.ts_ns - ts_ns) for ts_ns in times)

        changes = events_of(case.lane, self.timeline, Frame(case.lane, first, last, ()), case.partition)
        around += [Moment(ts_ns, "cluster", "cluster", text) for ts_ns, _, text in changes if first <= ts_ns <= last]
        for fault in self.timeline.faults:
            what = f"{fault.name} of {join(fault.request.resolved) or fault.request.target}"
            if fault.concerns(case.lane) and fault.request.ts_ns <= last and (fault.healed_ns or last) >= first:
                around.append(Moment(fault.request.ts_ns, "fault", "fault", f"{what} begins"))
                around += [Moment(fault.healed_ns, "fault", "fault", f"{what} ends")] if fault.healed_ns else []
        # Brokers trace each request of the controller: what they log besides says more.
        lines = [line for line in self.lines[self.partition(case)] if distance(line) <= _MARGIN_NS]
        lines = sorted(lines, key=lambda line: (line.what.startswith("TRACE"), distance(line)))[:_OF_A_KIND]
        return sorted([*around, *lines], key=distance)

    def _requested(self, case: Case, first: int, last: int) -> Iterator[Moment]:
        """The requests about a case's partition from one time to another: first those that faults hit."""
        begun = self.evidence.events[0].ts_ns if self.evidence.events else 0
        since, until = (first - begun) / 1e9, (last - begun) / 1e9
        requests = self.requests[self.partition(case)]
        meanwhile = [one for one in requests if one.asked <= until and (one.answered or one.asked) >= since]
        meanwhile.sort(key=lambda request: (request.fault is None, request.api != "Produce", request.asked))
        for request in meanwhile[:_OF_A_KIND]:
            yield Moment(begun + round(request.asked * 1e9), "request", request.sender, request)


def _of_record(case: Case) -> Iterator[Moment]:
    """What clients saw of the case's record, and of others at its offset."""
    for row in case.rows.get("produced", ()):
        yield Moment(row["invoke_ns"], "sends", f"producer {row['producer_id']}", row)
        if row["complete_ns"] is not None:
            yield Moment(row["complete_ns"], "ends", f"producer {row['producer_id']}", row)
    for row in case.rows.get("consumed", ()):
        yield Moment(row["poll_ns"], "reads", row["consumer"], row)
    for row in case.rows.get("deliveries", ()):
        yield Moment(row["delivered_ns"], "takes", row["member"], row)
