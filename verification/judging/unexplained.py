"""The first event of a partition that no behaviour of the model explains.

Guarantee: what is named contradicts a rule of replication, whatever happened between the observations. What was not
observed, or may have another cause, is not named: power loss and unclean elections, where a lane may have them, excuse
what they can bring about. Pure Python, no Spark.

| rule | source |
| --- | --- |
| a leader epoch has one leader, and none if its partition was offline in it | KIP-101, KIP-631 |
| a broker never leads in an earlier epoch than before | KIP-101 |
| a leader, and each member of the ISR, has what is below every high watermark of an earlier epoch | KIP-101 |
| a follower truncates to the start of a leader's epoch, or nothing | KIP-101, KIP-279 |
| a leader comes from the ISR, so that two ISRs in a row have a member in common | KIP-497 |
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kafka_chaos.contract.events import HighWatermark, LeaderElected, LogTruncated, PartitionOffline
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.protocol.rules import as_obeyed, rules_of
from kafka_chaos.verification.inputs.documents.events import LOG_TIME_NS
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.causes import knows_all_elections
from kafka_chaos.verification.judging.this_run import State, load_of, states_of, unobservable

UNEXPLAINED = "the model does not explain this"
Problem = tuple[int | None, str]
"""When an event happened, if it has a time, and the event with what was expected of it."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The events of a partition, in the order of their times.

    `marks`: its high watermarks. `states`: its ISRs, if each was seen. `offline`: leader epochs without a leader.
    """

    elections: Sequence[LeaderElected]
    truncations: Sequence[LogTruncated]
    marks: Sequence[HighWatermark]
    states: Sequence[State]
    offline: frozenset[int]
    all_elections: bool


def unexplained(run: RunDirectory, lane: Lane) -> list[str]:
    """The events that the model does not explain, at most one of each partition: why the lane can't conform."""
    load = load_of(run, lane)
    if run.events.faults is None or load is None or unobservable(run, lane) is not None:
        return []
    doubts = []
    for partition in range(lane.partitions):
        for ts_ns, problem in _problems(run, lane, partition):
            when = "" if ts_ns is None else f", {(ts_ns - load[0]) / 1e9:.3f} s after the load began"
            doubts.append(f"{UNEXPLAINED}: partition {partition}{when}: {problem}")
            break
    return doubts


def _problems(run: RunDirectory, lane: Lane, partition: int) -> Iterator[Problem]:
    seen = observed_of(run, lane, partition)
    unclean = as_obeyed(lane).unclean_leader_election
    lossy = any("power-loss" in fault.counts_as for fault in run.events.concerning(lane.lane))
    yield from _epochs(seen)
    if not unclean:
        yield from _elected_from_outside(seen.states, lane)
    if not (unclean or lossy):
        yield from _short_logs(seen, run.checkpoints.log_ends.get((lane.lane, partition), {}))
    if not lossy and seen.all_elections:
        yield from _odd_truncations(seen)


def observed_of(run: RunDirectory, lane: Lane, partition: int) -> Observed:
    """The events that were observed of a partition."""
    place = (lane.lane, partition)
    changes = sorted(run.events.changes.get(place, ()), key=lambda change: change.ts_ns)
    kept = run.events.kept.get(place, ())
    try:
        states = states_of(run, place)
    except ValueError:
        states = []
    return Observed(
        elections=[change for change in changes if isinstance(change, LeaderElected)],
        truncations=[change for change in changes if isinstance(change, LogTruncated)],
        marks=run.events.reports.get(place, ()),
        states=states,
        offline=frozenset(event.leader_epoch for event in kept if isinstance(event, PartitionOffline)),
        all_elections=knows_all_elections(run, place),
    )


def _epochs(seen: Observed) -> Iterator[Problem]:
    """Epochs with two leaders, or with one though the partition was offline, and brokers that lead in former epochs."""
    leaders: dict[int, int] = {}
    for won in seen.elections:
        leader = leaders.setdefault(won.leader_epoch, won.broker)
        if leader != won.broker:
            yield won.ts_ns, f"{_led(won)}, and broker {leader} before it; expected one leader in each epoch"
        if won.leader_epoch in seen.offline:
            yield won.ts_ns, f"{_led(won)}; expected none, since the controller took the partition offline in it"
    last: dict[int, int] = {}
    for won in seen.elections:
        before = last.setdefault(won.broker, won.leader_epoch)
        if won.leader_epoch < before:
            yield won.ts_ns, f"{_led(won)}; expected epoch {before}, in which it had led before, or a later one"
        last[won.broker] = won.leader_epoch


def _elected_from_outside(states: Sequence[State], lane: Lane) -> Iterator[Problem]:
    keeps, eligible = rules_of(lane).elects_eligible, frozenset[int]()
    for before, after in pairwise(states):
        # What leaves an ISR below the minimum is eligible until that is reached again (KIP-966). An ISR may be empty.
        if before.isr and after.isr and before.isr.isdisjoint(after.isr) and not after.isr <= eligible:
            isrs = [", ".join(map(str, sorted(state.isr))) for state in (after, before)]
            yield after.since_ns, f"the ISR became {isrs[0]}; expected a leader of the ISR before, {isrs[1]}"
        is_below = keeps and len(after.isr) < lane.min_insync_replicas
        eligible = (eligible | before.isr) - after.isr if is_below else frozenset()


def _short_logs(seen: Observed, log_ends: Mapping[int, int | None]) -> Iterator[Problem]:
    """Logs of leaders, and in the end of members of the ISR, that lack what was below a high watermark."""
    for won in seen.elections:
        mark = max((one.high_watermark for one in seen.marks if one.leader_epoch < won.leader_epoch), default=0)
        if won.start_offset < mark:
            yield won.ts_ns, f"{_led(won)}; expected a log with everything below the high watermark {mark}"
    mark = max((report.high_watermark for report in seen.marks), default=0)
    for broker in sorted(seen.states[-1].isr if seen.states else ()):
        end = log_ends.get(broker)
        if end is not None and end < mark:
            problem = f"the log of broker {broker} of the ISR ends at {end}"
            yield None, f"{problem}; expected the high watermark {mark} at least"


def _odd_truncations(seen: Observed) -> Iterator[Problem]:
    for cut in seen.truncations:
        starts = {won.start_offset for won in seen.elections if won.ts_ns <= cut.ts_ns + LOG_TIME_NS}
        if cut.offset not in {*starts, cut.log_end}:
            expected = " or ".join(map(str, sorted(starts)))
            problem = f"broker {cut.broker} truncated its log to {cut.offset} ({cut.reason})"
            yield cut.ts_ns, f"{problem}; expected the start of a leader's epoch, {expected}"


def _led(won: LeaderElected) -> str:
    return f"broker {won.broker} led in epoch {won.leader_epoch} from offset {won.start_offset} on"
