"""Opens a run directory for verification: finds its files, parses its metadata and checks every footer.

Guarantee: `open_run` either returns a directory whose tables and JSON files follow the contract, or raises
`RunDirectoryError`, which names the file and the column or key. It writes nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from kafka_chaos.contract import run_directory as contract
from kafka_chaos.contract.columns import TABLES, TABLES_OF_GROUPS, TABLES_OF_SHARES, TABLES_OF_TRANSACTIONS
from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import Timings
from kafka_chaos.verification.inputs.documents import checkpoints as brokers_state
from kafka_chaos.verification.inputs.documents.event_reader import read_events
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.predictions import GivenPrediction, read_predictions
from kafka_chaos.verification.inputs.documents.reading import expect, is_given, of_lanes, read_versioned
from kafka_chaos.verification.inputs.storage import RunPath, listed, run_path
from kafka_chaos.verification.inputs.tables import Table, read_tables
from kafka_chaos.verification.lacks import Doubt


def read_timings(path: RunPath, lanes: Sequence[Lane]) -> Mapping[str, Timings]:
    """The content of a timings.json by lane, if it exists; `RunDirectoryError` names the key at fault."""
    found = {}
    for name, entry in of_lanes(path, lanes).items():
        try:
            found[name] = Timings.from_json(entry)
        except LaneError as error:
            raise contract.RunDirectoryError(path, str(error), column=f"lanes.{name}") from error
    return found


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Everything that verification reads except rows. `path` None: the tables are DataFrames from elsewhere.

    `timings`: by lane the time-outs that bounds of recovery follow from. `doubts`: by lane, see `closure.resolve`.
    """

    path: RunPath | None
    lanes: tuple[Lane, ...]
    tables: Mapping[str, Table]
    events: Events = field(default_factory=Events)
    predictions: Mapping[str, GivenPrediction] = field(default_factory=dict)
    checkpoints: brokers_state.Checkpoints = field(default_factory=brokers_state.Checkpoints)
    groups: brokers_state.CommittedOffsets = field(default_factory=dict)
    timings: Mapping[str, Timings] = field(default_factory=dict)
    doubts: Mapping[str, Sequence[Doubt]] = field(default_factory=dict)

    def has(self, table: str) -> bool:
        """Whether the run has the table."""
        return self.tables[table].given

    @property
    def has_log(self) -> bool:
        """Whether the run has a final log."""
        return self.has("log")

    @property
    def is_planned(self) -> bool:
        """Whether it has an experiment.yaml: this project made it."""
        return self.path is not None and is_given(self.path / contract.EXPERIMENT_FILE)

    @property
    def families(self) -> frozenset[str]:
        """The families of anomalies that its lanes can have, as the folders of `statements/` are called."""
        has = {
            "transactions": any(lane.transactional is not None for lane in self.lanes),
            "groups": any(lane.groups for lane in self.lanes),
            "shares": any(lane.share is not None for lane in self.lanes),
        }
        return frozenset({"records", *(family for family, is_there in has.items() if is_there)})

    @property
    def rows(self) -> int:
        """The rows of all tables, by footer."""
        return sum(table.rows for table in self.tables.values())

    def lane(self, name: str) -> Lane:
        """The lane of that name."""
        return next(lane for lane in self.lanes if lane.lane == name)

    def place(self, table: str, file: str | None = None) -> RunPath | str:
        """The path that an error message names for the table, or for its file of that name."""
        if self.path is None:
            return table
        return self.path / table / file if file else self.path / table


def open_run(path: str | RunPath) -> RunDirectory:
    """Open and check the run directory at `path`, local or with a scheme; see the module's guarantee."""
    root = run_path(path)
    if not root.is_dir():
        raise contract.RunDirectoryError(root, "no such directory, expected a run directory")
    # An entry that is a part of the run but for its name, where that part is missing, would be read by nobody.
    entries = listed(root, "*")
    missing = [part for part in _PARTS if part not in {entry.name for entry in entries}]
    for entry in entries:
        bare = entry.name.lower().lstrip("._")
        for part in missing:
            begun = "" if part in TABLES else "(.*[.~_ -])?"
            extended = re.fullmatch(rf"{begun}{re.escape(part)}([.~_ -].*)?", bare)
            # That document as JSON, JSON lines or YAML, where it must be another of them.
            in_another_form = part not in TABLES and re.fullmatch(
                rf"{re.escape(part.rpartition('.')[0])}\.(jsonl?|ya?ml)", bare
            )
            is_like = extended or in_another_form or get_close_matches(bare, [part], 1, _CLOSE)
            is_unfinished = re.fullmatch(rf"\.{re.escape(part)}\.[0-9a-f]{{8}}\.part", entry.name)
            holds_rows = part not in TABLES or entry.is_dir() or bare.endswith(".parquet")
            if is_like and holds_rows and not is_unfinished:
                raise contract.RunDirectoryError(entry, f"looks like {part}, which is missing: rename it, or remove it")
    lanes = read_lanes(root / contract.LANES_FILE)
    tables = read_tables(root)
    require_tables(root, lanes, tables)
    return with_documents(RunDirectory(root, lanes, tables), root)


def with_documents(run: RunDirectory, folder: RunPath) -> RunDirectory:
    """The run with what the documents of a folder say of it, as far as they are there."""
    events = read_events(folder / contract.EVENTS_FILE, run.lanes)
    # A lane that went through the steps of a lock-step phase is judged by them, whether or not a prediction names them.
    steps = {lane.lane: events.steps(lane.lane) for lane in run.lanes}
    given = read_predictions(folder / contract.PREDICTION_FILE, run.lanes)
    seen = {lane: given.get(lane, GivenPrediction()) for lane, of_lane in steps.items() if of_lane or lane in given}
    return replace(
        run,
        events=events,
        predictions={lane: replace(one, steps=one.steps or steps[lane]) for lane, one in seen.items()},
        checkpoints=brokers_state.read_checkpoints(folder / contract.CHECKPOINTS_FILE, run.lanes),
        groups=brokers_state.read_groups(folder / contract.GROUPS_FILE, run.lanes),
        timings=read_timings(folder / contract.TIMINGS_FILE, run.lanes),
    )


_PARTS = (*TABLES, *contract.DOCUMENTS, contract.MANIFEST_FILE)
"""The parts of a run directory that verification reads."""
_CLOSE = 0.9
"""How alike two names are of which one is meant for the other (`difflib`)."""


def read_lanes(path: RunPath) -> tuple[Lane, ...]:
    """The lanes of a lanes.json; `RunDirectoryError` names the key at fault."""
    document = read_versioned(path, contract.LANES_VERSIONS)
    entries = document.get("lanes")
    if not isinstance(entries, list) or not entries:
        raise contract.RunDirectoryError(path, "expected a list of at least one lane", column="lanes")
    lanes: list[Lane] = []
    for index, entry in enumerate(entries):
        place = f"lanes[{index}]"
        expect(isinstance(entry, dict), path, place, "expected an object")
        try:
            lane = Lane.from_json(entry)
        except LaneError as error:
            raise contract.RunDirectoryError(path, str(error), column=f"{place}.{error.key}") from error
        twice = any(lane.lane == other.lane for other in lanes)
        expect(not twice, path, f"{place}.lane", f"{lane.lane!r} is named twice")
        version = document["format_version"]
        least = contract.VERSION_WITH_SHARES if lane.share else contract.VERSION_WITH_TRANSACTIONS
        known = version >= least or not (lane.transactional or lane.group or lane.loop or lane.share)
        has = "a share group" if lane.share else "transactions or a group"
        problem = f"is {version!r}, expected {least}: lane {lane.lane!r} has {has}"
        expect(known, path, "format_version", problem)
        lanes.append(lane)
    names = [lane.lane for lane in lanes]
    for index, lane in enumerate(lanes):
        source = None if lane.loop is None else lane.loop.source
        problem = f"{source!r} is no lane; they are {', '.join(names)}"
        expect(source in (None, *names), path, f"lanes[{index}].loop.source", problem)
    return tuple(lanes)


def require_tables(root: RunPath | None, lanes: Sequence[Lane], tables: Mapping[str, Table]) -> None:
    """Refuse a run that lacks a table which its lanes must have: of transactions, of groups, or of share groups."""
    needed = {lane.lane: TABLES_OF_TRANSACTIONS for lane in lanes if lane.transactional is not None}
    needed |= {lane.lane: (*needed.get(lane.lane, ()), *TABLES_OF_GROUPS) for lane in lanes if lane.group or lane.loop}
    needed |= {lane.lane: (*needed.get(lane.lane, ()), *TABLES_OF_SHARES) for lane in lanes if lane.share}
    for lane, names in needed.items():
        for name in names:
            if not tables[name].given:
                has = "a share group" if name in TABLES_OF_SHARES else "transactions or a group"
                problem = f"missing, expected rows of lane {lane!r}, which has {has}"
                raise contract.RunDirectoryError(name if root is None else root / name, problem)
