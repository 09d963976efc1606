"""Reads an experiment from YAML. Every refusal names file, line and key."""

from __future__ import annotations

import io
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
        experiment = Experiment.model_validate(expand(values))
        check(experiment)
    except ValidationError as error:
        # What several phases share is refused in each of them.
        found = dict.fromkeys(one_line(located(*one)) for one in refusals(error, Experiment))
        raise UsageFailure("\n".join(found)) from None
    except ExperimentError as error:
        raise UsageFailure(one_line(located(error.place, error.message))) from None
    return experiment


def _as_written(place: Place, values: Mapping[Any, Any]) -> Place:
    """Where the file has what stands at a place of the checked experiment: keys of a phase may be at the top."""
    of_phase = place[0:1] == ("phases",) and len(place) > 1
    if of_phase and "phases" not in values:
        return place[2:]
    shared = of_phase and len(place) > 2 and place[2] in values and place[2] not in values["phases"][place[1]]
    return place[2:] if shared else place


def dump_experiment(experiment: Experiment, extra: Mapping[str, Any]) -> str:
    """The experiment as YAML with all defaults, followed by `extra`."""
    yaml = YAML()
    yaml.default_flow_style = False
    buffer = io.StringIO()
    yaml.dump({**experiment.model_dump(mode="json"), **extra}, buffer)
    return buffer.getvalue()
