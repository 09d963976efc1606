"""The rules by which a lane's evidence is judged, in the order in which their sentences appear in verdict.json.

Each takes the evidence, and yields nothing, doubts, or gaps. `judge.py` has those of what was found.
"""

from collections.abc import Callable, Iterator

from kafka_chaos.contract.anomalies import Anomaly, Trait, with_trait
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.events import IsrChanged
from kafka_chaos.contract.lane.fault_kinds import LOCKSTEP
from kafka_chaos.contract.lane.metadata import SERVER
from kafka_chaos.verification.judging.assessment import lacks_of_families, reports
from kafka_chaos.verification.judging.evidence import LaneEvidence, lacks_of_replicas
from kafka_chaos.verification.judging.known_defects import implied
from kafka_chaos.verification.judging.unexplained import unexplained
from kafka_chaos.verification.lacks import Doubt, Gap, NotSearched
from kafka_chaos.verification.tables.facts import PartitionFacts

Rule = Callable[[LaneEvidence], Iterator[Doubt | Gap]]


def left_out(lane: LaneEvidence) -> list[str]:
    """The evidence that the run did not collect on purpose."""
    run, log, replicas = lane.run, lane.run.tables["log"], lane.run.tables["replicas"]
    absent = {
        "no log/: the final log is unknown": not run.has_log and not log.unread,
        "no replicas/: replicas are not compared": not replicas.given and not replicas.unread,
        "no checkpoints.json: replicas are compared below the lowest log end": (
            replicas.given and not run.checkpoints.given
        ),
        "no events.jsonl: proofs of faults are not judged": run.events.faults is None,
        "no timings.json: recovery is not judged": not run.timings,
        "no reports of high watermarks": not reports(run, lane.lane),
    }
    return [sentence for sentence, is_absent in absent.items() if is_absent]


def _tables(lane: LaneEvidence) -> Iterator[Doubt]:
    """The tables that were not read in full, or announced and not there; phases without an end."""
    yield from (Doubt(why) for of_table in lane.unread.values() for why in of_table)
    run = lane.run
    for name in run.events.collects:
        if not run.tables[name].given and not run.tables[name].unread:
            why = "events.jsonl announces it, so the run ended before it was collected"
            yield Doubt(f"{name}/ is missing: {why}")
    if run.is_planned and "replicas" in run.events.collects and not run.checkpoints.given:
        yield Doubt("checkpoints.json is missing, which is written with the replicas/ of events.jsonl")
    for phase in run.events.unfinished(lane.lane.lane):
        yield Doubt(f"the load of phase {phase} never ended: events.jsonl reports no phase_ended")
    yield from map(Doubt, run.events.doubts.get(lane.lane.lane, ()))


def _empty_history(lane: LaneEvidence) -> Iterator[Doubt]:
    if not lane.facts.total("produced"):
        yield Doubt("empty history: nothing was produced")
    elif not lane.acknowledged:
        yield Doubt("nothing was acknowledged: no record could be lost")
    elif lane.run.has_log and not lane.facts.total("stored"):
        yield Doubt(f"log/ holds no record of this lane, although {lane.acknowledged} were acknowledged")


def _ends_reached(lane: LaneEvidence) -> Iterator[Doubt]:
    has_log = lane.run.has_log
    for partition, facts in lane.facts.numbered:
        if not facts.end_reached(final_log=has_log):
            read = facts.read_end
            far = "nothing of it was read" if read is None else f"the last offset read is {read}"
            end = facts.end(final_log=has_log)
            yield Doubt(f"no consumer reached the end of partition {partition}, offset {end}: {far}")


def _log(lane: LaneEvidence) -> Iterator[Doubt]:
    """The partitions whose log/ ends before what some broker knows to be committed, and rows of it that are double."""
    # Markers are not in log/. Retention may remove a partition's records, but keeps the last one if it keeps any.
    is_whole = lane.run.has_log and lane.lane.transactional is None
    for partition in range(lane.lane.partitions) if is_whole else ():
        marks = lane.run.checkpoints.high_watermarks.get((lane.lane.lane, partition), {})
        known = [(mark, broker) for broker, mark in marks.items() if mark is not None]
        end = lane.facts.partitions.get(partition, PartitionFacts()).log_end
        last = -1 if end is None else end
        if known and max(known)[0] > last + 1 and (end is not None or lane.lane.cleanup_policy is None):
            (lowest, _), (highest, broker) = min(known), max(known)
            mark = f"every broker's high watermark, {lowest}"
            if lowest <= last + 1:
                mark = f"a high watermark, {highest} of broker {broker}"
            yield Doubt(f"partition {partition}: log/ ends at offset {last}, below {mark}")
    if doubled := lane.facts.total("doubled"):
        yield Doubt(f"log/ holds {doubled} rows twice")


def _acknowledgements(lane: LaneEvidence) -> Iterator[Doubt | Gap]:
    unplaced = lane.facts.total("unplaced")
    if lane.lane.acks == "0":
        if placed := lane.acknowledged - unplaced:
            yield Doubt(f"{counted(placed, 'acknowledgement')} name an offset, which no broker answers to acks=0")
    elif unplaced:
        why = f"{counted(unplaced, 'acknowledgement')} name no offset"
        if lane.run.is_planned and unplaced > implied(lane.run, lane.lane):
            yield Doubt(why)
        yield Gap(why, (Anomaly.OFFSET_MISMATCH, Anomaly.INCONSISTENT_OFFSET))


def _read_by_nobody(lane: LaneEvidence) -> Iterator[Doubt | Gap]:
    if not lane.facts.unjudged:
        return
    some = f"{lane.facts.unjudged} of {lane.acknowledged} acknowledged records"
    if lane.run.has_log:
        why = f"{some} are not in the log, from which records are removed, and nothing shows why"
        yield Gap(why, (Anomaly.LOST_WRITE,)) if lane.lane.acks == "0" else Doubt(why)  # acks=0 tells no offset
    else:
        why = f"{some} were read by nobody, and there is no final log (log/)"
        yield Gap(why, tuple(with_trait(Anomaly, Trait.BY_READS)))


def _families(lane: LaneEvidence) -> Iterator[Doubt | Gap]:
    """What the evidence lacks about the lane's transactions, groups, share group and recovery."""
    for lack in lacks_of_families(lane.run, lane.lane, lane.facts):
        if not isinstance(lack, NotSearched):
            yield lack
    yield from lane.recovery.lacks()


def _faults(lane: LaneEvidence) -> Iterator[Doubt]:
    """Faults before any acknowledgement, without a proof, undeclared, of unknown brokers, or shown by nothing."""
    late, run, events = lane.lane.created_late, lane.run, lane.run.events
    faults = events.concerning(lane.lane.lane)
    moments = [(((late and fault.healed) or fault.requested)[0], fault.fault_id) for fault in faults if fault.requested]
    if moments:
        moment_ns, fault_id = max(moments) if late else min(moments)
        stamps = (partition.first_acknowledged_ns for partition in lane.facts.partitions.values())
        acknowledged_ns = min((stamp for stamp in stamps if stamp is not None), default=None)
        if acknowledged_ns is None or acknowledged_ns >= moment_ns:
            yield Doubt(f"no acknowledgement before {'the end of the last' if late else 'the first'} fault, {fault_id}")
    yield from (Doubt(f"fault {fault.fault_id}: {fault.problem}") for fault in faults if fault.problem is not None)
    if unreported := events.unreported(lane.lane, len(run.checkpoints.brokers)):
        yield Doubt(f"lanes.json declares faults that events.jsonl does not report: {', '.join(unreported)}")
    if undeclared := events.undeclared(lane.lane):
        yield Doubt(f"events.jsonl reports faults that lanes.json does not declare: {', '.join(undeclared)}")
    for fault in faults:
        if strangers := _strangers(lane, {name for name in fault.brokers if SERVER.fullmatch(name)}):
            yield Doubt(f"fault {fault.fault_id} hit {strangers}, which checkpoints.json does not name")
    own = [fault for fault in faults if run.is_planned and fault.kind != LOCKSTEP and fault.problem is None]
    yield from (Doubt(f"fault {fault.fault_id}: proven without evidence") for fault in own if not fault.shown)
    yield from (Doubt(f"fault {fault.fault_id}: no event says what it hit") for fault in own if not fault.resolved)


def _strangers(lane: LaneEvidence, names: set[str]) -> str:
    """Of these brokers, the ones that checkpoints.json of this project does not name, though it names all brokers."""
    known = {f"broker-{number}" for number in lane.run.checkpoints.brokers if lane.run.is_planned}
    return ", ".join(sorted(names - known)) if known else ""


def _events(lane: LaneEvidence) -> Iterator[Doubt]:
    """Events of unknown brokers, of no lock-step phase though it was predicted, or that no behaviour explains."""
    changes = [change for (name, _), of in lane.run.events.changes.items() if name == lane.lane.lane for change in of]
    named = {f"broker-{change.broker}" for change in changes if not isinstance(change, IsrChanged)}
    if strangers := _strangers(lane, named):
        yield Doubt(f"events.jsonl names {strangers}, which checkpoints.json does not name")
    steps, faults = lane.prediction.steps, lane.run.events.concerning(lane.lane.lane)
    if steps and not any(fault.kind == LOCKSTEP and fault.steps == steps for fault in faults):
        yield Doubt("prediction.json is for a lock-step phase that events.jsonl does not report")
    yield from map(Doubt, unexplained(lane.run, lane.lane))


def _closure(lane: LaneEvidence) -> Iterator[Doubt | Gap]:
    """Relations between the tables that do not hold, replicas that can't be compared, and a search that never ended."""
    for doubt in lane.run.doubts.get(lane.lane.lane, ()):
        yield Doubt(doubt.text, tuple(anomaly for anomaly in doubt.rests if anomaly in lane.lane.anomalies))
    yield from lacks_of_replicas(lane)
    if lane.prediction.model_digest is None:
        yield Doubt("the model could not confirm prediction.json: its search was not exhausted")


RULES: tuple[Rule, ...] = (
    _tables,
    _empty_history,
    _ends_reached,
    _log,
    _acknowledgements,
    _read_by_nobody,
    _families,
    _faults,
    _events,
    _closure,
)
