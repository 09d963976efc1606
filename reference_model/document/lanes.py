"""The sections of docs/model.md on lanes: what each may show, what is assumed, known defects, traces, upgrades."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.reference_model.compare import RULES, UNCLEAN, Answer, Change, Cluster, compare
from kafka_chaos.reference_model.document.tables import head_of_marks, marks, named, numbered
from kafka_chaos.reference_model.lane.anomalies import CHECKS
from kafka_chaos.reference_model.lane.lockstep_phase import LockstepStep
from kafka_chaos.reference_model.matrix import FAULT_SETS, LANES
from kafka_chaos.reference_model.predict.prediction import Prediction, predict
from kafka_chaos.reference_model.protocol.axioms import AXIOMS
from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS

CUT_THEN_KILL = (
    LockstepStep.CUT_REPLICATION,
    LockstepStep.APPEND,
    LockstepStep.KILL_LEADER,
    LockstepStep.ELECT,
    LockstepStep.RESTART,
)

STORIES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("acks=1", "lost_write", ("pause",)),
    ("acks=1", "offset_mismatch", ("pause",)),
    ("acks=all, min ISR 2", "duplicate", ()),
    ("acks=all, min ISR 2", "reordered", ()),
    ("acks=all, min ISR 2", "lost_write", ("power-loss",)),
    ("acks=all, min ISR 2, unclean election", "truncated_read", ("kill",)),
    ("acks=all, idempotent, unclean election", "duplicate", ("kill", "kill")),
)

UPGRADES = (("3.6.2/zookeeper", "3.9.1/zookeeper"), ("3.9.1/zookeeper", "4.3.1/kraft"))


def predictions() -> Iterator[str]:
    """What each lane of the acks matrix may show under each fault."""
    yield "## What a lane may show"
    yield ""
    yield "`kafka-chaos predict` answers this for any lane. Here are some, with replication factor 3 and, unless said"
    yield "otherwise, five requests in flight and clean elections. Each fault named may strike once, on any broker at"
    yield "any moment, and is healed; a slow follower may always occur. `x`: permitted, empty: forbidden."
    for kinds in FAULT_SETS:
        yield ""
        yield from prediction_table(kinds)
    yield ""
    yield from axioms()
    yield ""
    yield from defects()


def axioms() -> Iterator[str]:
    """The anomalies that no search decides."""
    yield "## What the model assumes"
    yield ""
    yield "These anomalies are forbidden in every lane, `unseen` and the last one but for a loss of power. No search"
    yield "shows it: each rests on an axiom, and the axiom does not hold everywhere."
    yield ""
    yield "| anomaly | axiom | source | does not hold where |"
    yield "| --- | --- | --- | --- |"
    for anomaly, axiom in AXIOMS.items():
        yield f"| `{anomaly}` | {axiom.reason} | {axiom.documents} | {axiom.fails} |"


def defects() -> Iterator[str]:
    """What software is known to do that Kafka does not promise."""
    yield "## Known defects"
    yield ""
    yield "A status says what Kafka promises. `predict` also names the known defects of clients and brokers that make a"
    yield "forbidden anomaly reachable, each with the shortest way to it. They change no status."
    for defect in KNOWN_DEFECTS.values():
        yield ""
        yield f"### `{defect.id}`"
        yield ""
        yield f"- Component: {defect.component}, {defect.versions} ([ticket]({defect.ticket}))."
        yield f"- Rule that it changes: {defect.rule}."
        yield f"- Precondition: {defect.precondition}."
        yield f"- Effect: {defect.effect}"
    yield ""
    yield 'They are searched alone and together, with the client librdkafka. To this the lane "acks=all, min ISR 2,'
    yield 'idempotent" comes without a fault.'
    for anomaly, answer in predict(LANES["acks=all, min ISR 2, idempotent"]).anomalies.items():
        for trace in answer.known_defects:
            yield ""
            yield f"### `{anomaly}` with {' and '.join(trace.ids)}"
            yield ""
            yield from numbered(trace.why)


def prediction_table(kinds: tuple[str, ...]) -> Iterator[str]:
    """The matrix for one set of faults."""
    yield f"### {', '.join(kinds) or 'no fault'}"
    yield ""
    yield from head_of_marks(("lane",), CHECKS)
    for name, lane in LANES.items():
        prediction = predict(replace(lane, faults=kinds))
        yield f"| {name} | {marks(CHECKS, with_status(prediction, Status.PERMITTED))} |"


def with_status(prediction: Prediction, status: Status) -> list[Anomaly]:
    """The anomalies of this status that a search decides."""
    return [anomaly for anomaly in CHECKS if prediction.status(anomaly) is status]


def stories() -> Iterator[str]:
    """Some of the stories behind the marks."""
    yield "## Examples of traces"
    for name, wanted, kinds in STORIES:
        why = predict(replace(LANES[name], faults=kinds)).anomalies[Anomaly(wanted)].why
        yield ""
        yield f"### `{wanted}` with {name}, {', '.join(kinds) or 'no fault'}"
        yield ""
        yield from numbered(why)


def lockstep() -> Iterator[str]:
    """The anomalies that a lock-step phase makes certain."""
    yield "## What a lock-step phase requires"
    yield ""
    yield f"The lock-step phase {', '.join(f'`{step}`' for step in CUT_THEN_KILL)} leaves this of the freedom above:"
    yield ""
    yield "| lane | required | permitted |"
    yield "| --- | --- | --- |"
    for name, lane in LANES.items():
        prediction = predict(lane, lockstep=CUT_THEN_KILL)
        cells = (named(with_status(prediction, status)) for status in (Status.REQUIRED, Status.PERMITTED))
        yield f"| {name} | {' | '.join(cells)} |"


def upgrades(answer: Answer) -> Iterator[str]:
    """What depends on version and metadata mode, and which lanes of the tables above it concerns."""
    yield "## What depends on version and metadata mode"
    yield ""
    yield "Each release has the rules of those before it. `predict` knows them by `--kafka-version`, `--metadata-mode`"
    yield "and `--elr`; the tables above are those of 3.9.1, in either mode."
    yield ""
    yield from (f"- {name}" for name, _ in RULES[1:])
    yield f"- {UNCLEAN}"
    for before, after in UPGRADES:
        found = compare(Cluster.parse(before), Cluster.parse(after), answer)
        yield ""
        yield f"From `{before}` to `{after}` {'these statuses change' if found.changes else 'no status changes'}."
        if not found.changes:
            continue
        yield ""
        yield "| lane | faults | anomalies | before | after | rule |"
        yield "| --- | --- | --- | --- | --- | --- |"
        yield from map(_change_row, found.changes)


def _change_row(change: Change) -> str:
    by = "; ".join(rule.partition(":")[0] for rule in change.rules)
    faults_named = ", ".join(change.faults) or "no fault"
    return f"| {change.lane} | {faults_named} | {named(change.why)} | {change.before} | {change.after} | {by} |"
