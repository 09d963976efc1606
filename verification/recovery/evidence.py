"""Judges a lane's recovery: which outages were longer than their bounds, and what can't be judged. No Spark.

Guarantee: nothing is judged without the lane's time-outs and the observations that it rests on; what is not judged is
named with the reason. Time in which faults left too few replicas, or the harness did not run, does not count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

from kafka_chaos.contract.events import IsrChanged, LeaderElected
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.fault_kinds import COUNTS_AS, LOCKSTEP
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.contract.lane.recovery import CALLS, RecoveryAnomaly
from kafka_chaos.contract.ledger import RecoveryLedger
from kafka_chaos.contract.run_directory import TIMINGS_FILE
from kafka_chaos.reference_model.recovery import BREAKS_CONNECTIONS, Bound, bounds_of
from kafka_chaos.verification.inputs.documents.events import SESSION_EXPIRY
from kafka_chaos.verification.inputs.documents.faults import LEADER_TRANSFER, FaultRecord
from kafka_chaos.verification.inputs.documents.reading import is_given
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Doubt, Gap
from kafka_chaos.verification.recovery.outages import ACKNOWLEDGED, READ, Outage, attempts, outages, usual_pause_ns
from kafka_chaos.verification.tables.facts import LaneFacts

NOBODY_KNOWS = "timings.json does not say which time-outs its clients have, and the lane has no recover_within"
MAJORITY_OF = 3
"""Of so many controllers, one may be gone."""
_NEVER = 1 << 62
_TAKES_BROKERS = {kind for kind, of_model in COUNTS_AS.items() if of_model in BREAKS_CONNECTIONS} | {"pause"}
"""The kinds of faults that end a broker's session, so that others lead. With a slow or frozen disk it leads on."""
_OF_PRODUCERS = ("request_ms", "linger_ms", "delivery_ms")
_OF_CLIENTS = (RecoveryAnomaly.STALLED_PRODUCER, RecoveryAnomaly.STALLED_CONSUMER)
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """An outage with its bound; `counted`: how long it was, but for time that does not count, in ns.

    `paused`: how much of it the harness had no processor, in ns.
    """

    outage: Outage
    bound: Bound
    counted: int
    paused: int

    @property
    def is_too_long(self) -> bool:
        """Whether the outage lasted longer than its bound and the time in which the harness had no processor."""
        return self.counted > self.bound.seconds * 1e9 + self.paused

    @property
    def is_hidden(self) -> bool:
        """Whether only the harness's lack of a processor excuses the outage, and has to excuse more than it may.

        It may excuse as much as the bound itself, but nothing of a call without an answer: nobody saw such a call end.
        """
        most = 1 if self.outage.awaited and not self.outage.over else 2
        return not self.is_too_long and self.counted > most * self.bound.seconds * 1e9

    @property
    def described(self) -> str:
        """For people: the gap, the bound and its derivation."""
        paused = f", and the harness had no processor for {self.paused / 1e9:.1f} s" if self.paused else ""
        ended = "" if self.outage.over else ", with no end seen"
        client, awaited = self.outage.client, self.outage.awaited
        waited = f"{client} waited for {awaited}: " if client else f"{awaited}: " if awaited else ""
        return f"{waited}longest gap {self.counted / 1e9:.1f} s{ended}, bound {self.bound.described}{paused}"


@dataclass(frozen=True)
class Recovery:
    """The recovery of a lane, as its evidence shows it."""

    run: RunDirectory
    lane: Lane
    facts: LaneFacts

    @cached_property
    def not_judged(self) -> Mapping[AnyAnomaly, str]:
        """The anomalies of which the evidence shows nothing, and why; nothing of those that the lane can't have."""
        run, lane = self.run, self.lane
        its = lane.recovery_anomalies
        if lane.lane not in run.timings:
            # A directory without time-outs says so once, by what it left out (`left_out`).
            return dict.fromkeys(its, "timings.json does not name this lane") if run.timings else {}
        if run.events.faults is None:
            return dict.fromkeys(its, "there is no events.jsonl: nobody knows when faults began and ended")
        if run.events.outside.get(lane.lane):
            return dict.fromkeys(its, "others may have injected faults at any time")
        bounds = self.bounds()
        reasons = {anomaly: NOBODY_KNOWS for anomaly in its if anomaly not in bounds}
        seen = {pulse.what for pulse in self.facts.pulses if pulse.partition is not None}
        if lane.acks == "0":
            reasons |= dict.fromkeys(_OF_CLIENTS, "with acks=0 nobody is told that a broker has a record")
        called = {CALLS[call.call] for call in run.events.calls.get(lane.lane, ())}
        for anomaly, what in zip(_OF_CLIENTS, (ACKNOWLEDGED, READ), strict=True):
            if what not in seen and anomaly not in (*reasons, *called):
                reasons[anomaly] = f"no record was {what}, or nobody knows when"
        reasons |= {anomaly: why for anomaly, (whole, why) in self.unseen.items() if whole}
        if lane.share is not None and not (self.facts.share and self.facts.share.deliveries):
            reasons[RecoveryAnomaly.SHARE_STALLED] = "deliveries/ holds no delivery of its share group"
        if lane.group_anomalies and not self.facts.owned and RecoveryAnomaly.GROUP_NOT_STABLE not in called:
            reasons[RecoveryAnomaly.GROUP_NOT_STABLE] = "assignments/ holds no assignment of its group"
        return {anomaly: reasons[anomaly] for anomaly in its if anomaly in reasons}

    @cached_property
    def unseen(self) -> Mapping[RecoveryAnomaly, tuple[bool, str]]:
        """The anomalies for which some partition was not observed: whether none was, and what is missing."""
        lane, events = self.lane, self.run.events
        isrs = {place for place, of in events.changes.items() if any(isinstance(change, IsrChanged) for change in of)}
        known = {RecoveryAnomaly.ISR_NOT_RESTORED: ("ISR", isrs)}
        if lane.transactional is not None:
            known[RecoveryAnomaly.TRANSACTION_NOT_ENDED] = ("last stable offset", set(events.stable))
        found = {}
        for anomaly, (what, seen) in known.items():
            if without := [number for number in range(lane.partitions) if (lane.lane, number) not in seen]:
                why = f"events.jsonl holds no {what} of partition {without[0]}"
                found[anomaly] = (len(without) == lane.partitions, why)
        return found

    @property
    def judged(self) -> tuple[RecoveryAnomaly, ...]:
        """The anomalies that are looked for."""
        if self.lane.lane not in self.run.timings:
            return ()
        return tuple(anomaly for anomaly in self.lane.recovery_anomalies if anomaly not in self.not_judged)

    @cached_property
    def by_anomaly(self) -> Mapping[RecoveryAnomaly, Sequence[Measured]]:
        """What was measured of each judged anomaly; furthest beyond its bound, or closest to it, comes first."""
        by_distance = sorted(
            self.measured, key=lambda one: (one.bound.seconds * 1e9 + one.paused - one.counted, str(one.outage))
        )
        return {anomaly: [one for one in by_distance if one.outage.anomaly == anomaly] for anomaly in self.judged}

    @cached_property
    def too_long(self) -> Mapping[AnyAnomaly, Sequence[Measured]]:
        """The outages beyond their bounds, each once."""
        found = {anomaly: [one for one in of if one.is_too_long] for anomaly, of in self.by_anomaly.items()}
        return {anomaly: measured for anomaly, measured in found.items() if measured}

    @property
    def ledger(self) -> tuple[RecoveryLedger, ...]:
        """Bound and observation of each anomaly that was judged, in verdict.json."""
        return tuple(
            RecoveryLedger(
                anomaly=anomaly,
                partition=seen[0].outage.partition if seen else None,
                longest_s=round(seen[0].counted / 1e9, 3) if seen else 0.0,
                bound_s=bound.seconds,
                derivation=bound.described,
            )
            for anomaly, seen in self.by_anomaly.items()
            for bound in [seen[0].bound if seen else self.bounds()[anomaly]]
        )

    @cached_property
    def measured(self) -> Sequence[Measured]:
        """The outages of what is judged that may be too long or have no end, and of each anomaly the longest."""
        judged = self.judged
        if not judged:
            return []
        found = [outage for outage in outages(self.run, self.lane, self.facts) if outage.anomaly in judged]
        shortest = self.bounds(BREAKS_CONNECTIONS)
        longest = {one.anomaly: one for one in sorted(found, key=lambda one: one.end_ns - one.start_ns)}
        return [
            self._measured(outage)
            for outage in found
            if outage is longest[outage.anomaly]
            or (outage.anomaly == RecoveryAnomaly.ISR_NOT_RESTORED and not outage.over)
            or outage.end_ns - outage.start_ns > shortest[outage.anomaly].seconds * 1e9
        ]

    def _measured(self, outage: Outage) -> Measured:
        span = (outage.start_ns, outage.end_ns)
        reach = self._longest_ns(outage.anomaly)
        faults = [fault for fault in self._faults if _overlap((_span(fault)[0], _span(fault)[1] + reach), [span])]
        spared = bool(faults) and all(fault.spares_followers for fault in faults)
        bound = self.bounds((fault.kind for fault in faults), followers_hang=not spared)
        # Once leadership has moved, all replicas serve on: the rest of such a fault counts.
        excused = [
            (start, fault.proven[-1] if fault.kind == LEADER_TRANSFER and fault.proven else end)
            for fault in faults
            if not self._is_survived(outage, fault)
            for start, end in [_span(fault)]
        ]
        without = _overlap(span, excused)
        return Measured(
            outage,
            bound[outage.anomaly],
            outage.end_ns - outage.start_ns - without,
            _overlap(span, [*excused, *self.run.events.pauses]) - without,
        )

    def _is_survived(self, outage: Outage, fault: FaultRecord) -> bool:
        """Whether the lane has to be available amid a fault: it took brokers away of which enough replicas were left.

        Faults that end near each other count together, since replicas take their time to come back. Coordinators have
        logs of their own, of which nobody observed who was in sync.
        """
        has_coordinator = self.lane.transactional is not None or self.lane.group_anomalies
        if has_coordinator or outage.anomaly not in _OF_CLIENTS or fault.kind not in _TAKES_BROKERS:
            return False
        start, end = _span(fault)
        until_whole = self._longest_ns(RecoveryAnomaly.ISR_NOT_RESTORED)
        near = [other for other in self._faults if _span(other)[0] <= end and start <= _span(other)[1] + until_whole]
        if any(not other.brokers or len(other.brokers) < len(set(other.resolved)) for other in near):
            return False
        needed = self.lane.min_insync_replicas if self.lane.acks == "all" else 1
        hit = frozenset[str]().union(*(other.brokers for other in near))
        if self.lane.mode == KRAFT and (len(hit) > 1 or self.lane.replication_factor < MAJORITY_OF):
            # Brokers may be controllers, too, of which a majority has to be left.
            return False
        left = self.lane.replication_factor - len(hit)
        # The ISRs that clients saw, and those that leaders began with: whole before, and no smaller than the fault made
        # it up to the end of the outage, since more may have failed than a fault hit.
        place = (self.lane.lane, -1 if outage.partition is None else outage.partition)
        changes = self.run.events.changes.get(place, ())
        isrs = [(one.ts_ns, len(set(one.isr))) for one in changes if isinstance(one, IsrChanged | LeaderElected)]
        _, before = max((isr for isr in isrs if isr[0] < start), key=itemgetter(0), default=(0, 0))
        meanwhile = [size for ts_ns, size in isrs if start <= ts_ns <= outage.end_ns]
        return left >= needed and before >= self.lane.replication_factor and min(meanwhile, default=left) >= left

    def bounds(self, faults: Iterable[str] = (), *, followers_hang: bool = True) -> Mapping[RecoveryAnomaly, Bound]:
        """The bounds of what the lane's time-outs are known for, amid faults of these kinds.

        Clients have the time-outs that they told, else those of timings.json: the longest counts, if all are known.
        """
        timings, told = self.run.timings[self.lane.lane], self.run.events.timeouts.get(self.lane.lane, ())
        readers = ("consumer", "sharer") if self.lane.loop else ("consumer", "sharer", "member")
        longest: dict[str, int] = {}
        for name in {name for _, own in told for name in own}:
            asked = (own for role, own in told if role not in readers or name not in _OF_PRODUCERS)
            times = [own.get(name, getattr(timings, name)) for own in asked]
            if times and None not in times:
                longest[name] = max(times)
        return bounds_of(self.lane, replace(timings, **longest), faults, followers_hang=followers_hang)

    def _longest_ns(self, anomaly: RecoveryAnomaly) -> int:
        return round(self.bounds()[anomaly].seconds * 1e9)

    @cached_property
    def _faults(self) -> list[FaultRecord]:
        """The faults of the run, and sessions that ended without one: the time-outs that follow are the same.

        Such a broker was not heard of for its session, which does not count; from then on others serve.
        """
        events, name = self.run.events, self.lane.lane
        session_ns = self.run.timings[name].session_ms * 1_000_000
        unplanned = [
            FaultRecord(
                f"unplanned-{number}",
                SESSION_EXPIRY,
                resolved=(f"broker-{end.broker}",),
                requested=[end.ts_ns - session_ns],
                healed=[end.ts_ns],
            )
            for number, end in enumerate(events.unplanned_ends(name, session_ns))
        ]
        # The faults of a lock-step phase have events of their own.
        planned = [fault for fault in events.concerning(name) if fault.requested and fault.kind != LOCKSTEP]
        return [*planned, *unplanned]

    def lacks(self) -> Iterator[Gap | Doubt]:
        """What the evidence about the lane's recovery lacks, beside what is not judged at all (`not_judged`)."""
        for anomaly, (_, why) in self.unseen.items():
            if anomaly in self.judged:
                yield Gap(why, (anomaly,))
        for measured in self.measured:
            anomaly = measured.outage.anomaly
            if anomaly == RecoveryAnomaly.ISR_NOT_RESTORED and not measured.outage.over and not measured.is_too_long:
                where = f"partition {measured.outage.partition}: the run ended before its bound"
                yield Gap(f"{where}: {measured.described}", (anomaly,))
            if measured.is_hidden:
                yield Doubt(f"{anomaly} can be neither shown nor excluded: {measured.described}")
        run = self.run
        if run.is_planned and run.path is not None and is_given(run.path / TIMINGS_FILE):
            if self.lane.lane in run.timings:
                yield from map(Doubt, _untested(run, self.lane, self.facts))
            else:
                yield Doubt("timings.json does not name this lane, though its run has planned it")

    def rows(self) -> Iterator[Mapping[str, str | int | None]]:
        """The outages beyond their bounds, as rows of findings/."""
        for anomaly, measured in self.too_long.items():
            for one in measured:
                place = {"lane": self.lane.lane, "anomaly": anomaly.value, "partition": one.outage.partition}
                yield {**place, "cause": one.described}


def _untested(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[str]:
    """The faults in whose time clients of the lane attempted nothing; one of a later topic has nothing to do before."""
    spans = attempts(run, lane, facts)
    slack = 3 * usual_pause_ns(spans)
    for fault in run.events.concerning(lane.lane):
        if fault.kind == LOCKSTEP or not fault.requested or not spans:
            continue
        start, end = _span(fault)
        is_before = lane.created_late and end < spans[0][0]
        if not is_before and not any(begin <= end + slack and start - slack <= until for begin, until in spans):
            yield f"fault {fault.fault_id} has not tested this lane: its clients attempted nothing meanwhile"


def _span(fault: FaultRecord) -> Span:
    """From when to when a fault held; one that was never healed holds for ever."""
    return fault.requested[0], fault.healed[-1] if fault.healed else _NEVER


def _overlap(span: Span, others: Iterable[Span]) -> int:
    """How much of a span others cover together."""
    covered, reached = 0, span[0]
    for start, end in sorted(others):
        start, end = max(start, reached), min(end, span[1])
        if start < end:
            covered, reached = covered + end - start, end
    return covered
