"""Makes an experiment from a run: with the run's faults, when they really came, on the servers that they hit.

Guarantee: what the run did not record is refused, not guessed.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.metadata import SERVER
from kafka_chaos.contract.run_directory import EVENTS_FILE, EXPERIMENT_FILE
from kafka_chaos.faults.target import CLIENT_ROLES, Target, TargetError
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.report.inputs.evidence import as_dict
from kafka_chaos.verification.inputs.documents.reading import json_lines, parsed_yaml, read_object


def realised_experiment(run: Path) -> Experiment:
    """The experiment of a run directory, with its faults as they were realised; raises `UsageFailure`.

    A fault has the time at which it really came, and its targets are the containers that held the roles then.
    """
    return experiment_of(realised_values(run), str(run / EXPERIMENT_FILE))


def realised_values(run: Path) -> dict[str, Any]:
    """The keys of `realised_experiment`, as in an experiment file."""
    values = _values(run / EXPERIMENT_FILE)
    faults = list(_faults(run / EVENTS_FILE))
    for number, phase in enumerate(values.get("phases") or ()):
        schedule = phase.get("schedule") or []
        realised = [entry for name, entry in faults if name == phase.get("phase")]
        if len(realised) != len(schedule):
            raise UsageFailure(
                f"{run}: phases[{number}]: {len(realised)} of {len(schedule)} faults of the schedule were injected: "
                "expected a run whose schedule was followed to its end"
            )
        # A fault that came late may have come at the very end of the load, or past it.
        latest = float(phase["workload"]["duration"]) - 0.001
        entries = ({**entry, "at": min(entry["at"], latest)} for entry in realised)
        phase["schedule"] = sorted(entries, key=lambda entry: float(entry["at"]))
    return values


def _values(path: Path) -> dict[str, Any]:
    document = read_object(path, parsed_yaml)
    if not isinstance(document.get("phases"), list):
        raise UsageFailure(f"{path}: expected the experiment of a run of kafka-chaos, with its phases")
    if " --attach " in str(as_dict(document.get("recorded")).get("replay")):
        raise UsageFailure(f"{path}: a run on an attached cluster can't be repeated on containers")
    # What the run has added is no key of an experiment.
    return {key: value for key, value in document.items() if key != "recorded"}


def _faults(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each timed fault as an entry of a schedule, with its phase."""
    for number, event in json_lines(path):
        # A lock-step phase is itself requested like a fault, of the kind `lockstep`.
        if event.get("type") != "fault_requested" or event.get("kind") == "lockstep":
            continue
        line = f"{path}:{number}"
        phase, _, fault = str(event.get("fault_id")).rpartition("/")
        if "at" in event and event["at"] is None:
            continue  # a fault of a lock-step phase: in the new run, its step waits for the condition again
        times = [event.get(key) for key in ("at", "duration", "late")]
        if not all(isinstance(time, int | float) for time in times):
            raise UsageFailure(f"{line}: {fault} has no times: expected a run of this version of kafka-chaos")
        parameters = event.get("parameters")
        at, duration, late = (float(time) for time in times if time is not None)
        # `late`: by how many seconds the fault came later than the schedule asked for.
        began = round(at + late, 3)
        entry = {"fault": event["kind"], "target": _target(event, line), "at": began, "duration": duration}
        yield phase, {**entry, **(parameters if isinstance(parameters, dict) else {})}


def _target(event: Mapping[str, Any], line: str) -> str:
    """The target that names exactly the containers that were hit; clients are named as the experiment named them."""
    resolved = event.get("resolved") or ()
    with suppress(TargetError):
        requested = Target.parse(str(event.get("target")))
        if requested.role in CLIENT_ROLES:
            return requested.text
    matches = [match for name in resolved if (match := SERVER.fullmatch(str(name))) is not None]
    roles = {match["role"] for match in matches}
    if len(roles) != 1 or len(matches) != len(resolved):
        hit = ", ".join(map(str, resolved)) or "nothing"
        raise UsageFailure(f"{line}: the fault hit {hit}: no target names exactly that")
    role, numbers = roles.pop(), [match["number"] for match in matches]
    if len(numbers) == 1:
        return f"{role}:{numbers[0]}"
    # A fault that hits more than one server of ZooKeeper hits all of them.
    return "zookeeper" if role == "zookeeper" else f"{role}s:{','.join(numbers)}"
