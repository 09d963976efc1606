"""The reference pages, out of the code: command line, experiment files, faults, anomalies, run directory, plugin.

They are written anew by every build of the site and are not kept: what is not there can't be out of date.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

HERE = Path(__file__).parent
REFERENCE = HERE / "reference"


def pages() -> dict[str, str]:
    """All pages by file name."""
    return {
        "cli.md": command_line(),
        "experiment.md": experiment_files(),
        "faults.md": faults(),
        "anomalies.md": anomalies(),
        "run-directory.md": run_directory(),
        "pytest.md": plugin(),
    }


def write() -> None:
    """Write the pages that differ from what is there, so that nothing is built twice."""
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def command_line() -> str:
    """Every command's own help."""
    import click

    from kafka_chaos.harness.cli import cli

    def helped(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
        context = click.Context(command, info_name=name, parent=parent, max_content_width=100)
        yield context.command_path, command.get_help(context)
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                if found is not None:
                    yield from helped(found, inner, context)

    lines = [
        "# Command line",
        "",
        "Exit codes of all commands: 0 conforms · 1 violation · 2 unknown · 3 the machine lacks something · 64 bad",
        'arguments or a bad file. Completion: `eval "$(kafka-chaos completion bash)"`, or zsh, or fish.',
        "",
    ]
    for path, text in helped(cli, "kafka-chaos", None):
        lines += [f"## {path}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def experiment_files() -> str:
    """The models of an experiment, key by key."""
    from kafka_chaos.harness import experiment as models
    from kafka_chaos.harness.cluster import ClusterSpec
    from kafka_chaos.harness.schedule import GenerateModel
    from kafka_chaos.reference_model import CourseStep

    lines = [
        "# Experiment files",
        "",
        "YAML. A key that is not known is refused with file, line and what was expected. An experiment of one phase",
        "may write the keys of a phase at the top.",
        "",
    ]
    for title, model in (
        ("experiment", models.Experiment),
        ("cluster", models.ClusterModel),
        ("phases[…]", models.PhaseModel),
        ("lanes[…]", models.LaneModel),
        ("workload", models.WorkloadModel),
        ("schedule[…]", models.FaultModel),
        ("schedule.generate", GenerateModel),
        ("course", models.CourseModel),
    ):
        about = ClusterSpec.__doc__ if model is models.ClusterModel else model.__doc__
        lines += [f"## {title}", "", _prose(about), "", "| key | type | default |", "| --- | --- | --- |"]
        lines += [f"| `{key}` | {_type(entry)} | {_default(entry)} |" for key, entry in model.model_fields.items()]
        lines.append("")
    steps = ", ".join(f"`{step}`" for step in CourseStep)
    return "\n".join([*lines, "## Steps of a course", "", steps, ""])


def faults() -> str:
    """The fault kinds with what they take, and the targets."""
    from kafka_chaos.faults import target
    from kafka_chaos.faults.registry import FAULTS

    lines = ["# Faults and targets", ""]
    for kind, fault in FAULTS.items():
        own = [field for field in dataclasses.fields(fault) if field.name not in ("target", "at", "duration")]
        lines += [
            f"## {kind}",
            "",
            _prose(fault.__doc__),
            "",
            f"The model is told: {', '.join(fault.model_kinds)}.",
            "",
        ]
        if own:
            lines += ["| key | default |", "| --- | --- |"]
            lines += [f"| `{field.name}` | {_plain(field.default)} |" for field in own]
            lines.append("")
    lines += ["## Targets", "", _prose(target.__doc__), "", f"Expected: {target.EXPECTED}.", ""]
    return "\n".join(lines)


def anomalies() -> str:
    """Every anomaly with what it means in a few words and its specification: the docstring of its function."""
    from kafka_chaos.harness.report import matrix
    from kafka_chaos.reference_model.anomalies import Anomaly
    from kafka_chaos.verification import anomalies as functions

    lines = [
        "# Anomalies",
        "",
        "What each holds for, from the functions that find it. Choices that these sentences leave open, what is not",
        "judged, and how verdicts come about: [what counts as an anomaly](../anomalies.md).",
        "",
    ]
    for anomaly in Anomaly:
        function = getattr(functions, anomaly.value)
        lines += [f"## {anomaly}", "", f"*{matrix.meaning(anomaly).capitalize()}.*", "", _prose(function.__doc__), ""]
    return "\n".join(lines)


def run_directory() -> str:
    """The files of a run directory, the columns of its tables, and the events."""
    from kafka_chaos.harness import events
    from kafka_chaos.verification import contract

    lines = [
        "# Run directory",
        "",
        "The contract between the stages of a run, and between this project and others: anyone can write such a",
        "directory and have it verified. `produced/`, `consumed/` and `lanes.json` are required.",
        "",
        "| path | content |",
        "| --- | --- |",
        *(f"| `{path}` | {content} |" for path, content in _FILES.items()),
        "",
        "A nullable column may be missing. Times are nanoseconds of one monotonic clock; `poll_ns` strictly increases",
        f"per consumer; `outcome` is {', '.join(contract.OUTCOMES)}.",
        "",
    ]
    for name, columns in {**contract.TABLES, "findings": contract.FINDINGS}.items():
        lines += [f"## {name}/", "", "| column | type | nullable |", "| --- | --- | --- |"]
        lines += [f"| `{one.name}` | {one.type} | {'yes' if one.nullable else 'no'} |" for one in columns]
        lines.append("")
    lines += ["## events.jsonl", "", "One object per line, with `ts_ns` and `type`.", ""]
    lines += ["| type | fields | meaning |", "| --- | --- | --- |"]
    for event in events.Event.__subclasses__():
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(event) if field.name != "ts_ns")
        lines.append(f"| `{event(**_blank(event)).to_json()['type']}` | {fields} | {_prose(event.__doc__)} |")
    return "\n".join([*lines, ""])


def plugin() -> str:
    """The plugin's functions and fixtures."""
    from kafka_chaos.harness.application import ConsumerHandle, Handle, ProducerHandle
    from kafka_chaos.harness.pytest_plugin import plugin as loaded
    from kafka_chaos.harness.pytest_plugin import values
    from kafka_chaos.harness.pytest_plugin.clusters import MakeTopic
    from kafka_chaos.harness.pytest_plugin.result import ChaosRun
    from kafka_chaos.harness.pytest_plugin.runs import Runs

    lines = ["# pytest plugin", "", f"Marker: `{loaded.MARKER}`", "", "## Values", ""]
    lines += ["`from kafka_chaos import kill, lane, load, partition, pause, stop`", ""]
    for name in ("lane", "load", "kill", "stop", "pause", "partition"):
        lines += _function(name, getattr(values, name))
    for name in ("at", "lasting"):
        lines += _function(f"FAULT.{name}", getattr(values.PlannedFault, name))
    lines += ["## Fixtures", ""]
    for fixture in ("kafka_chaos_cluster", "kafka_chaos_topic", "kafka_chaos_run"):
        lines += [f"### {fixture}", "", _prose(inspect.getdoc(getattr(loaded, fixture))), ""]
    lines += _function("kafka_chaos_run", Runs.__call__)
    lines += _function("kafka_chaos_topic", MakeTopic.__call__)
    for title, owner in (
        ("What a run returns", ChaosRun),
        ("The handle of a function", Handle),
        ("The handle of a producer", ProducerHandle),
        ("The handle of a consumer", ConsumerHandle),
    ):
        lines += [f"## {title}", "", _prose(owner.__doc__), ""]
        for name, member in vars(owner).items():
            if not name.startswith("_") and isinstance(member, property):
                lines += [f"`{name}`", f": {_prose(member.__doc__)}", ""]
            elif not name.startswith("_") and inspect.isfunction(member):
                lines += _function(name, member)
    return "\n".join(lines)


_FILES = {
    "experiment.yaml": "the experiment with every default written out, the seed, the schedule that was drawn, versions",
    "lanes.json": "the lanes as the model and the verification know them",
    "produced/*.parquet": "every record that was sent, with its outcome",
    "consumed/*.parquet": "every record that was read",
    "log/*.parquet": "the final log, read back",
    "replicas/*.parquet, checkpoints.json": "the brokers' own segments and checkpoints, where they were collected",
    "events.jsonl": "what happened, see below",
    "logs/": "every container's log",
    "prediction.json": "lane → anomaly → status, and why",
    "findings/*.parquet": "one row per anomalous record, with its cause",
    "verdict.json": "verdicts, counts and first examples",
    "report.html": "the report, one file",
}


def _function(name: str, function: Any) -> list[str]:
    signature = inspect.signature(function)
    # Without annotations: what an argument takes stands in the text below.
    empty = inspect.Parameter.empty
    own = [one.replace(annotation=empty) for one in signature.parameters.values() if one.name != "self"]
    shown = signature.replace(parameters=own, return_annotation=inspect.Signature.empty)
    return ["```python", f"{name}{shown}", "```", "", _prose(function.__doc__), ""]


def _prose(text: str | None) -> str:
    return textwrap.dedent(inspect.cleandoc(text or "")).replace("\n\n", "\n\n").strip().replace("|", "\\|")


def _type(entry: Any) -> str:
    """A key's type in words, with its bounds."""
    bounds = [
        f"{sign} {getattr(one, name)}"
        for one in entry.metadata
        for name, sign in (("ge", "≥"), ("le", "≤"), ("min_length", "at least"))
        if getattr(one, name, None) is not None
    ]
    return ", ".join([_words(entry.annotation), *bounds])


def _words(annotation: Any) -> str:
    inner = [one for one in get_args(annotation) if one not in (type(None), ...)]
    if type(None) in get_args(annotation):
        return f"{_words(inner[0])}, or none"
    if get_origin(annotation) is tuple:
        return f"two of {_words(inner[0])}" if len(inner) == 2 else f"list of {_words(inner[0])}"
    if get_origin(annotation) is dict:
        return "mapping"
    if get_origin(annotation) is Annotated:
        return _words(inner[0])
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return plain.get(annotation) or annotation.__name__.removesuffix("Model").lower()


def _default(entry: Any) -> str:
    if entry.is_required():
        return "required"
    if entry.default_factory is not None:
        return "drawn" if entry.annotation is int else "empty"
    return _plain(entry.default)


def _plain(value: object) -> str:
    if value is None:
        return "none"
    if value in ((), {}, ""):
        return "empty"
    return f"`{value}`" if isinstance(value, str | int | float | tuple) else "its own defaults"


def _blank(event: type) -> Mapping[str, Any]:
    return {field.name: None for field in dataclasses.fields(event) if field.name != "ts_ns"}


if __name__ == "__main__":
    write()
