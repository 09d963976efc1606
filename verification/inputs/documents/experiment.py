"""Documents about lanes besides lanes.json: experiment.yaml, and timings.json with time-outs, from which bounds of
recovery follow.

Guarantee: what experiment.yaml says of a lane, lanes.json says, too, and events.jsonl has the faults of its schedule. A
key that one of the two leaves out has its default there. A file that is no experiment is refused. A run without
experiment.yaml was written by another tool.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from kafka_chaos.contract.command.errors import LaneError, quoted
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import USUAL_VERSION, release
from kafka_chaos.contract.lane.recovery import Timings
from kafka_chaos.contract.run_directory import LANES_FILE, RunDirectoryError
from kafka_chaos.reference_model.clients.rules import LIBRDKAFKA
from kafka_chaos.verification.inputs.documents.reading import (
    expect,
    is_given,
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


def differing(
    path: RunPath, lanes: Sequence[Lane], requested: Mapping[str, Sequence[str]]
) -> Mapping[str, Sequence[str]] | None:
    """By lane, what an experiment.yaml says otherwise than lanes.json and events.jsonl; None if there is no such file.

    `requested`: by lane the kinds of the faults that events.jsonl reports. Raises `RunDirectoryError` for a file that
    is no experiment, and for a lane that one of the two lacks.
    """
    if not is_given(path):
        return None
    planned, schedules, cluster = _planned(path)
    for lane in sorted({lane.lane for lane in lanes} ^ planned.keys()):
        here, there = (path, LANES_FILE) if lane in planned else (path.with_name(LANES_FILE), path.name)
        raise RunDirectoryError(here, f"{there} has no such lane", column=f"lane {quoted(lane)}")
    return {
        name: [
            *_differences(lane, planned[name], cluster),
            *_unscheduled(Counter(schedules.get(name, ())), Counter(requested[name]), name in schedules),
        ]
        for name, lane in ((lane.lane, lane) for lane in lanes)
    }


def _unscheduled(planned: Counter[str], requested: Counter[str], is_scheduled: bool) -> list[str]:
    """How the faults of a lane's schedule and those that were requested differ. Lock-step phases have no schedule."""
    texts = (", ".join(sorted(kinds.elements())) or "none" for kinds in (planned, requested))
    differ = is_scheduled and planned != requested
    return ["experiment.yaml schedules the faults {}, events.jsonl reports {}".format(*texts)] if differ else []


def _differences(lane: Lane, planned: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[str]:
    defaults = {one.name: one.default for one in fields(lane)}
    given = {name: (getattr(lane, name), planned.get(name, defaults[name])) for name in _SETTINGS}
    if "topic" in planned:
        given["topic"] = (lane.topic or lane.lane, planned["topic"] or lane.lane)
    for name in _CLIENTS:
        here, there = getattr(lane, name), planned.get(name)
        given[name] = (here is not None, there is not None)
        if here is not None and isinstance(there, Mapping):
            given |= {
                f"{name}.{key}": (value, there.get(key, value))
                for key, value in asdict(here).items()
                if not isinstance(value, dict)
            }
    assumed = [planned.get("assume") or [], cluster.get("assume") or []]
    are_lists = all(isinstance(one, list) and all(isinstance(key, str) for key in one) for one in assumed)
    given["assume"] = (set(lane.assume), {key for one in assumed for key in one} if are_lists else assumed)
    if lane.group is not None and isinstance(planned.get("group"), Mapping):
        # Faults that end members are crashes of the group, too.
        own = planned["group"].get("crashes", 0)
        given["group.crashes"] = (lane.group.crashes, max(lane.group.crashes, own) if isinstance(own, int) else own)
    configured = (planned.get("topic_configs"), cluster.get("broker_configs"), cluster.get("configs_of"))
    # Before 0.11, brokers elect unclean leaders of their own topics, too.
    if not any(configured) and release(lane.kafka_version or USUAL_VERSION) >= (0, 11):
        given |= {one.name: (getattr(lane, one.name), one.default) for one in fields(lane) if one.name in _CONFIGURED}
    here = lane.client or LIBRDKAFKA
    # A command of the user's own says itself what it is; librdkafka in process has the version that is installed.
    there = here if isinstance(planned.get("client"), list) else str(planned.get("client", LIBRDKAFKA))
    given["client"] = (here if " " in there else here.partition(" ")[0], there)
    # Lanes of a cluster of several versions have the oldest.
    of_cluster = ("metadata_mode",) if cluster.get("broker_versions") else ("kafka_version", "metadata_mode")
    given |= {name: (getattr(lane, name), there) for name in of_cluster if (there := cluster.get(name)) is not None}
    return [
        f"lanes.json says {name}: {quoted(here)}, experiment.yaml {quoted(there)}"
        for name, (here, there) in given.items()
        if here != there or isinstance(here, bool) != isinstance(there, bool)
    ]


Planned = tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Sequence[str]], Mapping[str, Any]]


def _planned(path: RunPath) -> Planned:
    """The lanes of an experiment by name, by lane the kinds of its scheduled faults, and its cluster."""
    with opened(path) as file:
        try:
            document = parsed_yaml(file.read())
        except ValueError as error:
            raise RunDirectoryError(path, str(error)) from error
    phases = document.get("phases") if isinstance(document, dict) else None
    expect(isinstance(phases, list), path, "phases", "expected a list of phases")
    found: dict[str, Mapping[str, Any]] = {}
    schedules: dict[str, Sequence[str]] = {}
    for number, phase in enumerate(phases or ()):
        lanes = phase.get("lanes") if isinstance(phase, dict) else None
        expect(isinstance(lanes, list), path, f"phases[{number}].lanes", "expected a list of lanes")
        for lane in lanes or ():
            is_named = isinstance(lane, dict) and isinstance(lane.get("lane"), str)
            expect(is_named, path, f"phases[{number}].lanes", "expected lanes with a name")
            expect(lane["lane"] not in found, path, f"phases[{number}].lanes", f"lane {lane['lane']} is there twice")
            found[lane["lane"]] = lane
            if not phase.get("steps"):
                schedules[lane["lane"]] = _kinds(path, f"phases[{number}].schedule", phase.get("schedule"))
    cluster = document.get("cluster")
    return found, schedules, cluster if isinstance(cluster, dict) else {}


def _kinds(path: RunPath, key: str, schedule: object) -> list[str]:
    """The kinds of the faults of a schedule, once for each time that they come."""
    entries = schedule or []
    expect(isinstance(entries, list), path, key, "expected a list of faults")
    assert isinstance(entries, list)
    for entry in entries:
        expect(isinstance(entry, dict) and isinstance(entry.get("fault"), str), path, key, "expected faults")
    return [entry["fault"] for entry in entries]


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
