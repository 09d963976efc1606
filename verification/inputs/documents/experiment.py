"""Documents about lanes besides lanes.json: experiment.yaml, and timings.json with time-outs, from which bounds of
recovery follow.

Guarantee: what experiment.yaml says of a lane, lanes.json says, too, and events.jsonl has the faults of its schedule. A
key that one of the two leaves out has its default there. A file that is no experiment is refused. A run without
experiment.yaml was written by another tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from kafka_chaos.contract.command.errors import LaneError, quoted
from kafka_chaos.contract.lane.lanes import INTERNAL_REPLICAS, InternalTopic, Lane
from kafka_chaos.contract.lane.metadata import USUAL_VERSION, release
from kafka_chaos.contract.lane.recovery import Timings
from kafka_chaos.contract.run_directory import LANES_FILE, RunDirectoryError
from kafka_chaos.reference_model.clients.rules import LIBRDKAFKA
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.reading import (
    expect,
    is_given,
    is_whole,
    object_in,
    opened,
    parsed_yaml,
    read_versioned,
)
from kafka_chaos.verification.inputs.file_systems.storage import RunPath

_SETTINGS = (
    "partitions",
    "acks",
    "idempotence",
    "min_insync_replicas",
    "replication_factor",
    "unclean_leader_election",
    "max_in_flight",
    "cleanup_policy",
)
_CLIENTS = ("transactional", "group", "loop")
_CONFIGURED = ("flushes", "verifies_transactions", "consumer_offsets", "transaction_state")
"""Keys of a lane that have their defaults where neither its topic nor a broker is given any configuration."""


def differing(path: RunPath, lanes: Sequence[Lane], events: Events, brokers: int) -> Mapping[str, Sequence[str]] | None:
    """By lane, what an experiment.yaml says otherwise than lanes.json, events.jsonl and checkpoints.json.

    None if there is no such file. `brokers`: how many checkpoints.json names, 0 without one. Raises `RunDirectoryError`
    for a file that is no experiment, and for a lane that one of the two lacks.
    """
    if not is_given(path):
        return None
    planned = _planned(path)
    for lane in sorted({lane.lane for lane in lanes} ^ planned.lanes.keys()):
        here, there = (path, LANES_FILE) if lane in planned.lanes else (path.with_name(LANES_FILE), path.name)
        raise RunDirectoryError(here, f"{there} has no such lane", column=f"lane {quoted(lane)}")
    of_run = _of_run(planned, events, brokers)
    return {
        lane.lane: [*_differences(lane, planned), *_of_phase(lane.lane, planned, events), *of_run] for lane in lanes
    }


def _of_run(planned: _Planned, events: Events, brokers: int) -> list[str]:
    """What events.jsonl and checkpoints.json say otherwise of the run as a whole."""
    if events.faults is None:
        return ["events.jsonl is missing, though experiment.yaml is there"]
    expected = {
        "run_id": (planned.recorded.get("run_id"), events.run_id),
        "brokers": (planned.cluster.get("brokers"), brokers or None),
    }
    early = [f"events.jsonl reports {kind} from before the run began" for kind in dict.fromkeys(events.early)]
    return early + [
        f"experiment.yaml says {name}: {quoted(there)}, the run's files {quoted(here)}"
        for name, (there, here) in expected.items()
        if there is not None and (here is not None or name == "run_id") and here != there
    ]


def _of_phase(lane: str, planned: _Planned, events: Events) -> list[str]:
    """What events.jsonl says otherwise of the phase of a lane: its name and its faults. Lock-step phases have no
    schedule, and where leaders move back by themselves, each fault may bring a `stop` from outside."""
    phase = planned.phases[lane]
    together = [name for name, other in planned.phases.items() if other is phase]
    outside = [[kind for kind in of if kind != "stop"] for of in (phase.outside, events.outside.get(lane, ()))]
    requested = [fault.kind for fault in events.faults or () if any(map(fault.concerns, together))]
    pairs: dict[str, Sequence[Sequence[str] | None]] = {
        "has the phase": ([phase.name] if phase.name else None, [*events.phases_of(lane)]),
        "schedules the faults": (phase.faults, requested),
        "has the outside faults": outside,
    }
    return [
        f"experiment.yaml {what} {', '.join(sorted(there)) or 'none'}, events.jsonl {', '.join(sorted(here)) or 'none'}"
        for what, (there, here) in pairs.items()
        if there is not None and here is not None and events.faults is not None and sorted(there) != sorted(here)
    ]


def _differences(lane: Lane, experiment: _Planned) -> list[str]:
    planned, cluster = experiment.lanes[lane.lane], experiment.cluster
    defaults = {one.name: one.default for one in fields(lane)}
    given = {name: (getattr(lane, name), planned.get(name, defaults[name])) for name in _SETTINGS}
    given["created_late"] = (lane.created_late, planned.get("created_at") is not None)
    if "topic" in planned:
        given["topic"] = (lane.topic or lane.lane, planned["topic"] or lane.lane)
    for name in _CLIENTS:
        here, there = getattr(lane, name), planned.get(name)
        given[name] = (here is not None, isinstance(there, Mapping) if isinstance(there, Mapping | None) else there)
        if here is not None and isinstance(there, Mapping):
            given |= {f"{name}.{key}": pair for key, pair in _inner(asdict(here), there)}
    assumed = [planned.get("assume") or [], cluster.get("assume") or []]
    are_lists = all(isinstance(one, list) and all(isinstance(key, str) for key in one) for one in assumed)
    given["assume"] = (set(lane.assume), {key for one in assumed for key in one} if are_lists else assumed)
    for name in ("group.crashes", "loop.group.crashes"):
        # Faults that end members are crashes of the group, too.
        here, there = given.get(name, (0, 0))
        given[name] = (here, max(here, there) if isinstance(there, int) else there)
    configured = (planned.get("topic_configs"), cluster.get("broker_configs"), cluster.get("configs_of"))
    # Before 0.11, brokers elect unclean leaders of their own topics, too.
    if not any(configured) and release(lane.kafka_version or USUAL_VERSION) >= (0, 11):
        brokers = cluster.get("brokers")
        replicas = min(INTERNAL_REPLICAS, brokers) if isinstance(brokers, int) else INTERNAL_REPLICAS
        here = {one: getattr(lane, one) for one in _CONFIGURED}
        given |= {one: (None if _is_usual(kept, replicas) else kept, defaults[one]) for one, kept in here.items()}
    client = lane.client or LIBRDKAFKA
    # A command of the user's own says itself what it is; librdkafka in process has the version that is installed.
    there = client if isinstance(planned.get("client"), list) else str(planned.get("client", LIBRDKAFKA))
    versions = experiment.recorded.get("versions")
    version = versions.get(LIBRDKAFKA) if isinstance(versions, Mapping) else None
    if there == LIBRDKAFKA and " " in client and version:
        there = f"{there} {version}"
    given["client"] = (client if " " in there else client.partition(" ")[0], there)
    # Lanes of a cluster of several versions have the oldest.
    of_cluster = ("metadata_mode", "elr", *(() if cluster.get("broker_versions") else ("kafka_version",)))
    given |= {name: (getattr(lane, name), there) for name in of_cluster if (there := cluster.get(name)) is not None}
    return [
        f"lanes.json says {name}: {quoted(here)}, experiment.yaml {quoted(there)}"
        for name, (here, there) in given.items()
        if not _is_same(here, there)
    ]


def _is_usual(kept: object, replicas: int) -> bool:
    """Whether an internal topic is as by default, with the number of replicas that is usual for it."""
    if not isinstance(kept, InternalTopic) or kept.replication_factor != replicas:
        return False
    return replace(kept, replication_factor=None) == InternalTopic()


def _is_same(here: object, there: object) -> bool:
    """Whether JSON and YAML give the same value: 1 is neither true nor 1.0."""
    kinds = [(isinstance(one, bool), isinstance(one, float) and not isinstance(here, float)) for one in (here, there)]
    return here == there and kinds[0] == kinds[1]


def _inner(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The keys of settings and of settings in them, with both values; what one leaves out, it does not contradict."""
    for key, value in here.items():
        other = there.get(key, value)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            yield from ((f"{key}.{inner}", pair) for inner, pair in _inner(value, other))
        else:
            yield key, (value, other)


@dataclass(frozen=True, slots=True)
class _Phase:
    """`faults`: the kinds of its schedule, None for a lock-step phase. `outside`: its `outside_faults`."""

    name: str | None
    faults: Sequence[str] | None
    outside: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Planned:
    """An experiment: `lanes` by name, the `phases` of each, its `cluster`, and what the run `recorded` in it."""

    lanes: Mapping[str, Mapping[str, Any]]
    phases: Mapping[str, _Phase]
    cluster: Mapping[str, Any]
    recorded: Mapping[str, Any]


def _planned(path: RunPath) -> _Planned:
    with opened(path) as file:
        try:
            document = parsed_yaml(file.read())
        except ValueError as error:
            raise RunDirectoryError(path, str(error)) from error
    phases = document.get("phases") if isinstance(document, dict) else None
    expect(isinstance(phases, list), path, "phases", "expected a list of phases")
    found: dict[str, Mapping[str, Any]] = {}
    of_lanes: dict[str, _Phase] = {}
    for number, phase in enumerate(phases or ()):
        lanes = phase.get("lanes") if isinstance(phase, dict) else None
        expect(isinstance(lanes, list), path, f"phases[{number}].lanes", "expected a list of lanes")
        of_phase = _phase(path, f"phases[{number}]", phase)
        for lane in lanes or ():
            is_named = isinstance(lane, dict) and isinstance(lane.get("lane"), str)
            expect(is_named, path, f"phases[{number}].lanes", "expected lanes with a name")
            expect(lane["lane"] not in found, path, f"phases[{number}].lanes", f"lane {lane['lane']} is there twice")
            for key in ("topic_configs", "producer_configs"):
                _mapping(path, f"phases[{number}].lanes.{key}", lane.get(key, {}))
            found[lane["lane"]], of_lanes[lane["lane"]] = _grown(lane, phase.get("schedule") or ()), of_phase
    cluster = _mapping(path, "cluster", document.get("cluster", {}))
    for key in ("broker_configs", "configs_of", "broker_versions"):
        _mapping(path, f"cluster.{key}", cluster.get(key, {}))
    return _Planned(found, of_lanes, cluster, _mapping(path, "recorded", document.get("recorded", {})))


def _grown(lane: Mapping[str, Any], schedule: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The lane with the partitions that faults of its phase add."""
    growths = [
        one for one in schedule if one["fault"] == "partition-growth" and one.get("lane") in (None, lane["lane"])
    ]
    partitions = lane.get("partitions", 1)
    added = sum(one.get("add", 1) for one in growths)
    return {**lane, "partitions": partitions + added} if is_whole(partitions) else lane


def _phase(path: RunPath, key: str, phase: Mapping[str, Any]) -> _Phase:
    name, schedule, outside = phase.get("phase"), phase.get("schedule") or [], phase.get("outside_faults") or []
    expect(name is None or isinstance(name, str), path, f"{key}.phase", "expected a name")
    expect(isinstance(schedule, list), path, f"{key}.schedule", "expected a list of faults")
    for entry in schedule:
        is_fault = isinstance(entry, dict) and isinstance(entry.get("fault"), str) and is_whole(entry.get("add", 1))
        expect(is_fault, path, f"{key}.schedule", "expected faults")
    are_kinds = isinstance(outside, list) and all(isinstance(kind, str) for kind in outside)
    expect(are_kinds, path, f"{key}.outside_faults", "expected a list of fault kinds")
    return _Phase(name, None if phase.get("steps") else [entry["fault"] for entry in schedule], outside)


def _mapping(path: RunPath, key: str, value: object) -> Mapping[str, Any]:
    expect(isinstance(value, dict), path, key, f"{quoted(value)}, expected a mapping")
    assert isinstance(value, dict)
    return value


def read_timings(path: RunPath, lanes: Sequence[Lane]) -> Mapping[str, Timings]:
    """The content of a timings.json by lane, if it exists; `RunDirectoryError` names the key at fault."""
    if not is_given(path):
        return {}
    given = object_in(path, read_versioned(path), "lanes")
    names = [lane.lane for lane in lanes]
    found = {}
    for name, entry in given.items():
        expect(name in names, path, f"lanes.{name}", f"no such lane; they are {', '.join(names)}")
        try:
            found[name] = Timings.from_json(entry)
        except LaneError as error:
            raise RunDirectoryError(path, str(error), column=f"lanes.{name}") from error
    return found
