"""Reads timings.json: the time-outs of a run's lanes, from which bounds of recovery follow."""

from collections.abc import Mapping, Sequence

from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import Timings
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.reading import expect, is_given, object_in, read_versioned
from kafka_chaos.verification.inputs.file_systems.storage import RunPath


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
