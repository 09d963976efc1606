"""Reads an experiment from YAML. Every refusal names file, line and key."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.experiment.checks.experiment import check
from kafka_chaos.harness.experiment.refusals import refusals
from kafka_chaos.harness.experiment.schedule import expand
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError, dotted
from kafka_chaos.harness.experiment.yaml_text import document_of, line_of, one_line, text_of

Place = tuple[str | int, ...]
_WHAT = "an experiment"
_STEPS, _FORMER = "steps", "lockstep"


def load_experiment(path: Path, *, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment in a file, checked; `overrides` replace top-level keys. Raises `UsageFailure`."""
    return parse_experiment(text_of(path), str(path), overrides=overrides)


def experiment_values(path: Path) -> dict[Any, Any]:
    """The keys of an experiment file as they are written, once checked. Raises `UsageFailure`."""
    load_experiment(path)
    return document_of(text_of(path), str(path), _WHAT)[1]


def parse_experiment(text: str, source: str, *, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment that a YAML text describes; messages name `source` as the file."""
    document, values = document_of(text, source, _WHAT)

    def located(place: Place, message: str) -> str:
        written = _as_written(place, document)
        return f"{source}:{line_of(document, written)}: {dotted(written)}: {message}"

    return _checked({**values, **(overrides or {})}, located)


def experiment_of(values: Mapping[str, Any], source: str) -> Experiment:
    """The experiment that a mapping describes, checked; messages name it `source`. Raises `UsageFailure`."""

    def located(place: Place, message: str) -> str:
        return f"{source}: {dotted(_as_written(place, values))}: {message}"

    return _checked(values, located)


def _checked(values: Mapping[str, Any], located: Callable[[Place, str], str]) -> Experiment:
    try:
        experiment = Experiment.model_validate(expand(_renamed(values, located)))
        check(experiment)
    except ValidationError as error:
        # What several phases share is refused in each of them.
        found = dict.fromkeys(one_line(located(*one)) for one in refusals(error, Experiment))
        raise UsageFailure("\n".join(found)) from None
    except ExperimentError as error:
        raise UsageFailure(one_line(located(error.place, error.message))) from None
    return experiment


def _renamed(values: Mapping[str, Any], located: Callable[[Place, str], str]) -> Mapping[str, Any]:
    """The values with the key `steps` of phases where they have its former name, which is told to people."""

    def of_phase(phase: Any, *place: str | int) -> Any:
        if not isinstance(phase, Mapping) or _FORMER not in phase or _STEPS in phase:
            return phase
        if phase[_FORMER] is not None:
            print(f"kafka-chaos: {one_line(located((*place, _FORMER), f'called {_STEPS} now'))}", file=sys.stderr)
        return {_STEPS if key == _FORMER else key: value for key, value in phase.items()}

    phases = values.get("phases")
    if isinstance(phases, list):
        values = {**values, "phases": [of_phase(phase, "phases", number) for number, phase in enumerate(phases)]}
    renamed: Mapping[str, Any] = of_phase(values)
    return renamed


def _as_written(place: Place, values: Mapping[Any, Any]) -> Place:
    """Where the file has what stands at a place of the checked experiment: keys of a phase may be at the top."""
    of_phase = place[0:1] == ("phases",) and len(place) > 1
    if of_phase and "phases" not in values:
        place, phase = place[2:], values
    elif of_phase and len(place) > 2:
        phase = values["phases"][place[1]]
        if place[2] in values and place[2] not in phase:
            place, phase = place[2:], values
    else:
        return place
    at = 0 if phase is values else 2
    if place[at : at + 1] == (_STEPS,) and _STEPS not in phase and _FORMER in phase:
        place = (*place[:at], _FORMER, *place[at + 1 :])
    return place


def dump_experiment(experiment: Experiment, extra: Mapping[str, Any]) -> str:
    """The experiment as YAML with all defaults, followed by `extra`."""
    yaml = YAML()
    yaml.default_flow_style = False
    buffer = io.StringIO()
    yaml.dump({**experiment.model_dump(mode="json"), **extra}, buffer)
    return buffer.getvalue()
