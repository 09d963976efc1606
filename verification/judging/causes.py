"""Possible causes of lost, moved, duplicated and overtaken records, by partition: truncations, elections, faults.

Guarantee: a cause is named only with the events that show it; docs/ledger.md states the evidence for each.
`statements/explained.sql` gives each finding the first cause that covers it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from kafka_chaos.contract.events import LeaderElected, LogTruncated, PartitionOffline
from kafka_chaos.contract.lane.families import Cause
from kafka_chaos.contract.lane.fault_kinds import LOCKSTEP
from kafka_chaos.contract.lane.lanes import COMPACT, Lane
from kafka_chaos.verification.inputs.documents.events import LOG_TIME_NS, Place, is_unclean
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.this_run import states_of, unobservable


@dataclass(frozen=True, slots=True)
class Drop:
    """Explains the loss of offsets `first` to before `end` (None: of all later ones) known until `until_ns`."""

    first: int
    end: int | None
    until_ns: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class Span:
    """Explains what was under way at any time from `since_ns` to `until_ns` (None: to the end of the run).

    `within_ns`: but only if it had its outcome before so long.
    """

    since_ns: int
    until_ns: int | None
    cause: str
    within_ns: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionCauses:
    """The explanations for a partition, the best ones first. `partition` None: for records whose partition is unknown.

    `drops`: for lost and moved records with an offset; the last ones explain nothing, but name the leader epoch of the
    final log that has the offset. `sends`: for lost records without an offset, by the time of sending. `retries`: for
    duplicates and overtaken records, by the time from the sending to the outcome.
    """

    lane: str
    partition: int | None
    drops: Sequence[Drop] = ()
    sends: Sequence[Span] = ()
    retries: Sequence[Span] = ()


def causes_of(run: RunDirectory) -> list[PartitionCauses]:
    """The explanations that a run's events and checkpoints hold, for each partition that has some."""
    found = []
    for lane in run.lanes:
        faults = [
            fault
            for fault in run.events.concerning(lane.lane)
            if fault.kind != LOCKSTEP and fault.requested and fault.proven and fault.denied is None
        ]
        undisturbed = [] if lane.idempotence else _undisturbed(run, lane)
        causes = (_causes(run, lane, number, faults, undisturbed) for number in (*range(lane.partitions), None))
        found += [one for one in causes if one.drops or one.sends or one.retries]
    return found


def _causes(
    run: RunDirectory, lane: Lane, partition: int | None, faults: Sequence[FaultRecord], undisturbed: Sequence[Span]
) -> PartitionCauses:
    # Nothing is known of a partition that is not known.
    place = (lane.lane, -1 if partition is None else partition)
    changes = sorted(run.events.changes.get(place, ()), key=attrgetter("ts_ns"))
    elections = [change for change in changes if isinstance(change, LeaderElected)]
    unclean = {won for won in elections if is_unclean(won, changes)}
    spans = []
    for fault in faults:
        hit = f" of {', '.join(fault.resolved)}" if fault.resolved else ""
        name = f"fault {fault.fault_id} ({fault.kind}{hit})"
        spans.append((fault.requested[0], fault.healed[-1] if fault.healed else None, name))
    dropped: list[tuple[int, int, Drop]] = []
    sends: list[Span] = []
    for cut in changes:
        if not isinstance(cut, LogTruncated):
            continue
        # The last election of another broker before, if its log ended at or before what was dropped.
        others = [won for won in elections if won.broker != cut.broker and won.ts_ns < cut.ts_ns + LOG_TIME_NS]
        won = others[-1] if others and cut.offset <= others[-1].start_offset else None
        offsets = f"everything from offset {cut.offset} on"
        if cut.log_end is not None:
            offsets = f"offsets {cut.offset} to {cut.log_end - 1}"
        led = "" if won is None else f"; {_led(won, won in unclean)}"
        cause = f"{Cause.TRUNCATION}: broker {cut.broker} dropped {offsets}{led}"
        begun = cut.ts_ns if won is None else won.ts_ns
        dropped.append((begun, 0, Drop(cut.offset, cut.log_end, cut.ts_ns + LOG_TIME_NS, cause)))
        if won is not None:
            # Amid a fault, the former leader may have taken records that the new one does not have since its request.
            amid = (since for since, until, _ in spans if since <= won.ts_ns and (until is None or won.ts_ns <= until))
            sends.append(Span(min([won.ts_ns, *amid]), cut.ts_ns + LOG_TIME_NS, cause))
    for won in elections:
        kind = Cause.UNCLEAN_ELECTION if won in unclean else Cause.ELECTION
        cause = f"{kind}: {_led(won, won in unclean)}"
        dropped.append((won.ts_ns, 1, Drop(won.start_offset, None, won.ts_ns + LOG_TIME_NS, cause)))
    retries = [
        Span(won.ts_ns, won.ts_ns + LOG_TIME_NS, f"{Cause.RETRY}: {_led(won, won in unclean)}")
        for won in elections
        if won.leader_epoch > 0
    ]
    retries += [Span(since, until, f"{Cause.RETRY}: sent during {name}") for since, until, name in spans]
    return PartitionCauses(
        lane=lane.lane,
        partition=partition,
        drops=[
            *_kept(run, lane, place),
            *(drop for _, _, drop in sorted(dropped, key=lambda entry: entry[:2])),
            *_owners(run.checkpoints.chain.get(place, ())),
        ],
        sends=[*sends, *(Span(since, until, f"{Cause.FAULT}: sent during {name}") for since, until, name in spans)],
        # Brokers recognise what an idempotent producer sends again.
        retries=[] if lane.idempotence else [*retries, *undisturbed],
    )


def knows_all_elections(run: RunDirectory, place: Place) -> bool:
    """Whether each leader epoch of a partition is known, from 0 to the last one in checkpoints.json."""
    epochs = {won.leader_epoch for won in run.events.elected(*place)}
    epochs |= {event.leader_epoch for event in run.events.kept.get(place, ()) if isinstance(event, PartitionOffline)}
    chain = {epoch for epoch, _ in run.checkpoints.chain.get(place, ())}
    return bool(chain) and epochs.issuperset(range(max(chain | epochs) + 1))


def _kept(run: RunDirectory, lane: Lane, place: Place) -> list[Drop]:
    """The offsets that no leader's log lacked when it became leader, but for the first one's: no record there is lost.

    A leader drops nothing while it leads. So where a record is missing in the end, some later leader began at its
    offset or before it. That needs all elections.
    """
    won = run.events.elected(*place)
    if not won or lane.cleanup_policy not in (None, COMPACT) or not knows_all_elections(run, place):
        return []
    first = min(won, key=lambda election: (election.leader_epoch, election.ts_ns))
    # Told twice at once, it is one election still. Told later, its broker was back before anybody noticed.
    later = [one for one in won if one.ts_ns > first.ts_ns + LOG_TIME_NS or replace(one, ts_ns=first.ts_ns) != first]
    end = min((one.start_offset for one in later), default=None)
    return [Drop(0, end, None, f"{Cause.UNEXPLAINED}: no later leader began at or below it, so each of them had it")]


def _undisturbed(run: RunDirectory, lane: Lane) -> list[Span]:
    """Of duplicates and the like without a cause: unexplained, while nothing lets their producer send again.

    librdkafka does that after an error, a lost connection, or time-outs, which end sessions of brokers first. Near
    faults, elections, changes of an ISR (in any partition of the lane) and pauses of the harness the cause stays
    unobserved: for a time-out and a session, since clients and brokers may be behind. It takes all of these to be
    known. With acks=0, an outcome says nothing of when brokers read the record.
    """
    timings, places = run.timings.get(lane.lane), [(lane.lane, number) for number in range(lane.partitions)]
    waits = (timings.request_ms, timings.fetch_ms, timings.delivery_ms) if timings else ()
    patience_ms = min((ms or 0 for ms in waits), default=0)
    if timings is None or patience_ms <= timings.session_ms or lane.acks == "0" or unobservable(run, lane) is not None:
        return []
    try:
        moments = [state.since_ns for place in places for state in states_of(run, place)]
    except ValueError:
        return []
    if not all(knows_all_elections(run, place) for place in places):
        return []
    tail_ns = (patience_ms + timings.session_ms) * 1_000_000
    moments += [won.ts_ns for place in places for won in run.events.elected(*place)]
    faults = [(fault.requested[0], fault.healed[-1]) for fault in run.events.concerning(lane.lane)]
    disturbed = [*((at - tail_ns, at) for at in moments), *faults, *run.events.pauses]
    unexplained = f"{Cause.UNEXPLAINED}: nothing happened for which its producer sends a record again"
    unobserved = [Span(since, until + tail_ns, str(Cause.UNOBSERVED)) for since, until in disturbed]
    return [*unobserved, Span(0, None, unexplained, patience_ms * 1_000_000)]


def _led(won: LeaderElected, unclean: bool) -> str:
    outside = ", though it was not in the ISR" if unclean else ""
    return f"broker {won.broker} became leader in epoch {won.leader_epoch} at offset {won.start_offset}{outside}"


def _owners(chain: Sequence[tuple[int, int]]) -> list[Drop]:
    ends: list[int | None] = [*(start for _, start in chain[1:]), None]
    return [
        Drop(start, end, None, f"{Cause.UNOBSERVED}: the offset is of leader epoch {epoch}, which began at {start}")
        for (epoch, start), end in zip(chain, ends, strict=False)
    ]
