"""The report's matrix of lanes and anomalies: what was predicted beside what was observed, and sentences on both.

Guarantee: a cell is a deviation exactly if it is a reason for the lane's verdict. An anomaly that the model permits or
requires, and that was found, is a confirmation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.lane.families import ALL_ANOMALIES, AnyAnomaly, Cause
from kafka_chaos.contract.lane.groups import GROUP_ANOMALIES, GroupAnomaly
from kafka_chaos.contract.lane.lanes import settings_described
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.lane.share import Share
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.harness.report.inputs.evidence import Evidence, as_dict, as_list
from kafka_chaos.harness.report.pages import join, label

STATES = {
    "confirmed": "predicted and found: a confirmation",
    "clean": "forbidden, and none found: as promised",
    "possible": "permitted, but not seen in this run",
    "violation": "forbidden or unexplained, yet found: a violation",
    "missing": "required, yet not found: a violation",
    "doubtful": "can't be decided, so the lane's verdict is unknown",
    "not-judged": "not judged: evidence is missing",
}
"""By the state of a cell, its meaning, as in the legend."""


@dataclass(frozen=True)
class Cell:
    """One anomaly of one lane.

    `predicted`: the status in this run. `state`: a key of `STATES`. `count`: None if the anomaly was not judged; `note`
    then says why. Otherwise `note` may say that the status holds in this run only, or why findings are a violation.
    """

    anomaly: AnyAnomaly
    predicted: str
    count: int | None
    state: str
    note: str = ""

    @property
    def observed(self) -> str:
        """The observation in a word or two."""
        if self.count is None:
            return "not judged"
        return f"{self.count:,} found" if self.count else "none"

    @property
    def notable(self) -> bool:
        """Whether the anomaly was judged, and was found or is not forbidden."""
        return self.state not in {"clean", "not-judged"}


@dataclass(frozen=True)
class Row:
    """A lane's line of the matrix."""

    lane: str
    verdict: Verdict
    settings: str
    cells: tuple[Cell, ...]
    reasons: tuple[str, ...] = ()

    def cell(self, anomaly: AnyAnomaly) -> Cell:
        """The cell of an anomaly. If the lane can't show the anomaly, a `not-judged` cell says what the lane lacks."""
        family = "transactions" if isinstance(anomaly, TransactionAnomaly) else "group or loop that shows it"
        lacking = "bound of recovery" if isinstance(anomaly, RecoveryAnomaly) else family
        not_looked_for = Cell(anomaly, "", None, "not-judged", f"the lane has no {lacking}")
        return next((cell for cell in self.cells if cell.anomaly == anomaly), not_looked_for)


def columns(table: Sequence[Row]) -> list[AnyAnomaly]:
    """The anomalies that were looked for in some lane; without lanes, those that every lane may have."""
    looked_for = {*Anomaly, *(cell.anomaly for row in table for cell in row.cells)}
    return [anomaly for anomaly in ALL_ANOMALIES if anomaly in looked_for]


def rows(evidence: Evidence) -> list[Row]:
    """The matrix, in the order of lanes.json; lanes that only verdict.json names come last."""
    names = [*(lane for lane in evidence.lanes if lane in evidence.judged), *evidence.judged.keys() - evidence.lanes]
    return [_row(evidence, name) for name in names]


def settings(lane: Mapping[str, Any]) -> str:
    """The settings that distinguish a lane, in one line."""
    if not lane:
        return "not in lanes.json"
    parts = [f"acks={lane.get('acks', '?')}", f"min ISR {lane.get('min_insync_replicas', '?')}"]
    parts.append(f"{lane.get('replication_factor', '?')} replicas")
    parts.extend(settings_described(lane))
    if lane.get("client"):
        parts.append(str(lane["client"]))
    if lane.get("idempotence") and not lane.get("transactional"):
        parts.append("idempotent")
    if lane.get("unclean_leader_election"):
        parts.append("unclean election")
    if lane.get("partitions", 1) != 1:
        parts.append(f"{lane.get('partitions')} partitions")
    if lane.get("cleanup_policy"):
        parts.append(f"cleanup {lane['cleanup_policy']}")
    return " · ".join(parts)


def notable_anomalies(table: Sequence[Row]) -> list[AnyAnomaly]:
    """The anomalies whose cell is notable in some lane; the page hides the columns of the others at first."""
    return [anomaly for anomaly in columns(table) if any(row.cell(anomaly).notable for row in table)]


def quiet_columns(table: Sequence[Row]) -> list[str]:
    """Sentences on the columns without a notable cell: what is forbidden and was not found, and what was not judged."""
    quiet = [anomaly for anomaly in columns(table) if anomaly not in notable_anomalies(table)]
    cells = {anomaly: [cell for row in table for cell in row.cells if cell.anomaly == anomaly] for anomaly in quiet}
    unjudged = [anomaly for anomaly in quiet if any(cell.state == "not-judged" for cell in cells[anomaly])]
    clean = [anomaly for anomaly in quiet if anomaly not in unjudged]
    sentences = []
    if clean:
        names = join(label(anomaly) for anomaly in clean)
        sentences.append(f"Forbidden in every lane, and none found: {names}.")
    for anomaly in unjudged:
        notes = {cell.note for cell in cells[anomaly] if cell.state == "not-judged"}
        where = "" if all(cell.state == "not-judged" for cell in cells[anomaly]) else " in some lanes"
        sentences.append(f"Not judged{where}: {label(anomaly)} ({'; '.join(sorted(notes)[:3])}).")
    return sentences


def confirmations(table: Sequence[Row]) -> list[str]:
    """A sentence for each anomaly that was found where it is permitted or required: how many, and in which lanes."""
    sentences = []
    for anomaly in columns(table):
        hits = [(row.lane, row.cell(anomaly)) for row in table if row.cell(anomaly).state == "confirmed"]
        for status in (Status.REQUIRED, Status.PERMITTED):
            counts = {lane: cell.count or 0 for lane, cell in hits if cell.predicted == status}
            if counts:
                total, more = sum(counts.values()), len(counts) - 4
                lanes = join([*list(counts)[:4], *([f"{more} more"] if more > 0 else [])])
                sentences.append(f"{label(anomaly).capitalize()}: {total:,} in {lanes}, where it is {status}.")
    return sentences


def safe_lanes(table: Sequence[Row]) -> int:
    """How many lanes lost nothing, where a loss was forbidden."""
    return sum(row.cell(Anomaly.LOST_WRITE).state == "clean" for row in table)


def _row(evidence: Evidence, name: str) -> Row:
    entry = evidence.judged[name]
    verdict = Verdict(entry["verdict"])
    return Row(
        lane=name,
        verdict=verdict,
        settings=settings(evidence.lanes.get(name, {})),
        cells=tuple(_cell(evidence, name, entry, anomaly, verdict) for anomaly in _anomalies_of(evidence, name, entry)),
        reasons=tuple(str(reason) for reason in as_list(entry.get("reasons"))),
    )


def _anomalies_of(evidence: Evidence, name: str, entry: Mapping[str, Any]) -> list[AnyAnomaly]:
    """The anomalies that every lane has, the anomalies of the lane's families, and others that verdict.json names."""
    named = {*as_dict(entry.get("predicted")), *as_dict(entry.get("anomalies")), *as_dict(entry.get("not_judged"))}
    families: Mapping[str, Iterable[AnyAnomaly]] = {
        "transactional": TransactionAnomaly,
        "group": GROUP_ANOMALIES,
        "loop": GroupAnomaly,
        "share": Share().anomalies,
    }
    lane, expected = evidence.lanes.get(name, {}), set[AnyAnomaly](Anomaly)
    expected.update(*(anomalies for key, anomalies in families.items() if lane.get(key) is not None))
    return [anomaly for anomaly in ALL_ANOMALIES if anomaly in expected or anomaly in named]


def _cell(evidence: Evidence, name: str, entry: Mapping[str, Any], anomaly: AnyAnomaly, verdict: Verdict) -> Cell:
    observed = as_dict(as_dict(entry.get("anomalies")).get(anomaly))
    prediction = as_dict(evidence.predictions_of(name).get(anomaly))
    status_for_faults = str(
        observed.get("status") or as_dict(entry.get("predicted")).get(anomaly) or prediction.get("status") or "unknown"
    )
    why_not_judged = as_dict(entry.get("not_judged")).get(anomaly)
    if why_not_judged is not None:
        return Cell(anomaly, status_for_faults, None, "not-judged", str(why_not_judged))
    count = int(observed.get("count") or 0)
    status_in_run = str(as_dict(entry.get("in_this_run")).get(anomaly) or status_for_faults)
    note = f"in this run; for these faults it is {status_for_faults}" if status_in_run != status_for_faults else ""
    # Without a final log, an unseen record may only be unread: unknown, not a violation.
    unread = anomaly is Anomaly.UNSEEN and not evidence.tables.get("log")
    state = _state(status_in_run, count, verdict, unread=unread)
    # Only in a lane with a violation: older versions wrote `unexplained` also for what is now called `unobserved`.
    if state == "confirmed" and verdict is Verdict.VIOLATION and as_dict(observed.get("causes")).get(Cause.UNEXPLAINED):
        state, note = "violation", "no behaviour of the model explains all of these"
    return Cell(anomaly, status_in_run, count, state, note)


def _state(predicted: str, count: int, verdict: Verdict, *, unread: bool) -> str:
    """A cell's state, as judging decides it. A deviation is doubtful if `unread`, or if the lane has no violation."""
    in_doubt = verdict is not Verdict.VIOLATION
    if count:
        if predicted in {Status.PERMITTED, Status.REQUIRED}:
            return "confirmed"
        return "doubtful" if in_doubt or unread else "violation"
    if predicted == Status.REQUIRED:
        return "doubtful" if in_doubt else "missing"
    return "possible" if predicted == Status.PERMITTED else "clean"
