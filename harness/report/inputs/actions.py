"""Finds which actions of the model a run shows, in its events and in the outcomes that its producers learned.

Guarantee: an action counts only in a lane whose history has a trace of it. Most of the model's actions, such as a fetch
or a late answer, leave no trace: `ACTIONS` leaves them out, so that no report says that they were not observed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow.dataset as ds

from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.events import IsrChanged, LeaderElected
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import EVENTS_FILE, LANES_FILE, RunDirectoryError
from kafka_chaos.verification.inputs.documents.event_reader import read_events
from kafka_chaos.verification.inputs.documents.events import Change, Events, is_unclean
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.run_directory import read_lanes

_TRACES = package_toml(__package__, "actions.toml")
# The action shown by a fault of each kind, by the end of such a fault, by each error, and by each outcome of a record:
_BY_FAULT, _BY_END, _BY_ERROR, _BY_OUTCOME = (_TRACES[name] for name in ("faults", "ends", "errors", "outcomes"))
ACTIONS: Mapping[str, str] = _TRACES["actions"]  # by action, its trace in words


def lanes_and_events(run_dir: Path) -> tuple[Sequence[Lane], Events]:
    """The lanes and events of a run; no lanes and no events if one of the two files can't be used."""
    try:
        lanes = read_lanes(run_dir / LANES_FILE)
        return lanes, read_events(run_dir / EVENTS_FILE, lanes)
    except RunDirectoryError:
        return (), Events()


def actions_of(run_dir: Path) -> dict[str, Counter[str]]:
    """By lane, how many traces each action of `ACTIONS` has; empty if the run's lanes or events can't be used."""
    lanes, events = lanes_and_events(run_dir)
    by_lane = {lane.lane: Counter[str]() for lane in lanes}
    for (lane, _), changes in events.changes.items():
        by_lane[lane].update(_shown_by_changes(sorted(changes, key=lambda change: change.ts_ns)))
    for name, actions in by_lane.items():
        partitions = [changes for (lane, _), changes in events.changes.items() if lane == name]
        for fault in events.concerning(name):
            if fault.proven and fault.denied is None:  # reported as proven, and never as not proven
                actions.update(_shown_by_fault(fault, partitions))
    for name, outcome, error, count in outcomes_of(run_dir):
        shown = (_BY_OUTCOME.get(outcome), _BY_ERROR.get(error or ""))
        if name in by_lane:
            by_lane[name].update({action: count for action in shown if action is not None})
    return by_lane


def _shown_by_changes(changes: list[Change]) -> Iterator[str]:
    """The actions that a partition's `changes` (in order of time) show. The first leader counts as no election."""
    isr: tuple[int, ...] | None = None
    epoch: int | None = None
    for change in changes:
        if isinstance(change, LeaderElected):
            if epoch is not None and change.leader_epoch > epoch:
                yield "elect_unclean" if is_unclean(change, changes) else "elect"
            epoch = change.leader_epoch if epoch is None else max(epoch, change.leader_epoch)
        elif isinstance(change, IsrChanged):
            if isr and not set(isr) <= set(change.isr):
                yield "shrink_isr"
            if isr and not set(change.isr) <= set(isr):
                yield "expand_isr"
            isr = change.isr


def _shown_by_fault(fault: FaultRecord, partitions: Iterable[Iterable[Change]]) -> Iterator[str]:
    """The actions of a fault and of its end. `partitions`: the changes of each partition of the lane."""
    if fault.kind not in _BY_FAULT:
        return
    for node in fault.resolved:  # the nodes that it hit
        yield _BY_FAULT[fault.kind]
        if not fault.healed:
            continue
        if fault.kind in _BY_END:
            yield _BY_END[fault.kind]
        if _BY_END.get(fault.kind) != "restart":  # A leader that was not down learns only now that it was replaced.
            yield from ("learn" for changes in partitions if _was_replaced(node, fault, changes))


def _was_replaced(node: str, fault: FaultRecord, changes: Iterable[Change]) -> bool:
    """Whether `node` led the partition of `changes` when the fault began, and then another broker was elected."""
    elections = sorted((change.ts_ns, change.broker) for change in changes if isinstance(change, LeaderElected))
    requested_ns, healed_ns = fault.requested[0], fault.healed[-1]
    before = [broker for ts_ns, broker in elections if ts_ns < requested_ns]
    during = [broker for ts_ns, broker in elections if requested_ns <= ts_ns < healed_ns]
    return bool(before and during) and node == f"broker-{before[-1]}" and before[-1] != during[0]


def outcomes_of(run_dir: Path) -> Iterator[tuple[str, str, str | None, int]]:
    """Each lane, outcome and error that occur together in `produced/`, with the number of records."""
    folder = run_dir / "produced"
    if folder.is_dir():
        columns = ["lane", "outcome", "error"]
        rows = ds.dataset(folder, format="parquet").to_table(columns=columns)
        for row in rows.group_by(columns).aggregate([([], "count_all")]).to_pylist():
            yield row["lane"], row["outcome"], row["error"], row["count_all"]
