"""The reference pages. Every build of the site generates them from the code, so that they can't be out of date."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from meanings import COLUMNS, CONTENTS, EXIT_CODES

HERE = Path(__file__).parent
REFERENCE = HERE / "reference"
ANOMALIES = HERE / "anomalies.md"
_TABLE = re.compile(r"(?P<begin><!-- statements: (?P<family>\w+) -->)\n.*?(?P<end><!-- end -->)", re.DOTALL)


def pages() -> dict[str, str]:
    """All pages by file name."""
    return {
        "cli.md": command_line(),
        "experiment.md": experiment_files(),
        "faults.md": faults(),
        "anomalies.md": anomalies(),
        "run-directory.md": run_directory(),
        "events.md": event_types(),
        "statements.md": tables_of_statements(),
        "pytest.md": plugin(),
        "known.md": known_defects(),
    }


def write() -> None:
    """Write the pages that have changed, so that Sphinx builds only those."""
    REFERENCE.mkdir(exist_ok=True)
    written = {REFERENCE / name: text for name, text in pages().items()}
    written[ANOMALIES] = with_tables(ANOMALIES.read_text(encoding="utf-8"))
    for path, text in written.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def with_tables(page: str) -> str:
    """docs/anomalies.md with its tables anew, each of the statements of a family."""
    from kafka_chaos.verification.statements.library import statements

    def table(found: re.Match[str]) -> str:
        family = found["family"]
        rows = []
        for anomaly in anomalies_of(family):
            statement = statements(family)[anomaly.value]
            holds = " ".join(statement.specification.partition("\n\n")[0].split()).rstrip(".")
            rows.append((f"`{anomaly}`", holds, statement.unit, statement.row))
        lines = _table(("name", "holds when", "counted in", "the findings row names"), rows)
        return "\n".join((found["begin"], "", *lines, found["end"]))

    return _TABLE.sub(table, page)


def anomalies_of(family: str) -> type[StrEnum]:
    """The anomalies that the statements of a family find, in the order of the pages."""
    from kafka_chaos.contract.anomalies import Anomaly
    from kafka_chaos.contract.lane.groups import GroupAnomaly
    from kafka_chaos.contract.lane.share import ShareAnomaly
    from kafka_chaos.contract.lane.transactions import TransactionAnomaly

    return {"records": Anomaly, "transactions": TransactionAnomaly, "groups": GroupAnomaly, "shares": ShareAnomaly}[
        family
    ]


def command_line() -> str:
    """The help of every command."""
    import click

    from kafka_chaos.contract.command.errors import ExitCode
    from kafka_chaos.harness.cli.main import cli

    def helped(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
        context = click.Context(command, info_name=name, parent=parent, max_content_width=100)
        yield context.command_path, command.get_help(context)
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                if found is not None:
                    yield from helped(found, inner, context)

    meanings = _meanings("exit codes", EXIT_CODES, [code.name for code in ExitCode])
    lines = ["# Command line", "", "All commands end with one of these exit codes.", ""]
    lines += _table(("exit code", "meaning"), [(str(code.value), meanings[code.name]) for code in ExitCode])
    lines += ['Shell completion: `eval "$(kafka-chaos completion bash)"`, also for zsh and fish.', ""]
    for path, text in helped(cli, "kafka-chaos", None):
        lines += [f"## {path}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def known_defects() -> str:
    """The known defects of brokers and clients, from the heads of experiments/known."""
    from kafka_chaos.harness.cli import known_command

    defects = known_command.known_defects()
    rows = []
    for id, (_, head) in defects.items():
        shown = f"{head.shown} of {head.runs}" if head.shown else "tried"
        versions = f"{head.affected} → {head.mended}"
        rows.append((f"[{id}]({head.ticket})", head.title, versions, head.borders, f"{head.minutes:g}", shown))
    columns = ("ticket", "what breaks", "affected → mended", "known from", "minutes", "shown")
    tried = [f"- **{id}**: {head.tried}" for id, (_, head) in defects.items() if head.tried is not None]
    return "\n".join(
        [
            "# Known defects",
            "",
            "`kafka-chaos known ID` runs the experiment of a defect and its control, on the same cluster where they",
            "differ in the client, and says both verdicts. *Shown*: in how many runs the affected side had the defect",
            "and the control, which conformed, had not. Each is a file in `experiments/known/`, whose key `defect`",
            "([experiment files](experiment.md)) is its row here.",
            "",
            *_table(columns, rows),
            *(["What was tried, where no run showed the defect:", "", *tried, ""] if tried else []),
        ]
    )


def experiment_files() -> str:
    """The keys of an experiment."""
    from kafka_chaos.contract.lane.groups import Group, Loop
    from kafka_chaos.contract.lane.share import Share
    from kafka_chaos.contract.lane.transactions import Transactional
    from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
    from kafka_chaos.harness.experiment.defect_spec import ControlSpec, DefectSpec
    from kafka_chaos.harness.experiment.fault_spec import FaultSpec
    from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
    from kafka_chaos.harness.experiment.lives import GenerateLives, LifeSpec
    from kafka_chaos.harness.experiment.schedule import GenerateSpec
    from kafka_chaos.harness.experiment.specs import Experiment, LockstepSpec, PhaseSpec
    from kafka_chaos.harness.experiment.values import keys_of
    from kafka_chaos.reference_model import LockstepStep

    lines = [
        "# Experiment files",
        "",
        "An experiment is a YAML file. kafka-chaos refuses an unknown key and names the file, the line and the keys",
        "that it expects. An experiment with a single phase can have the keys of that phase at the top level. With",
        "several phases, `lanes` and `workload` at the top level are those of each phase that has none of its own.",
        "There, the lane LANE is called PHASE-LANE, in targets, too.",
        "",
        "A **lane** is one topic together with one producer configuration.",
        "",
    ]
    for title, spec in (
        ("experiment", Experiment),
        ("cluster", ClusterSpec),
        ("phases[…]", PhaseSpec),
        ("lanes[…]", LaneSpec),
        ("lanes[…].lives[…]", LifeSpec),
        ("lanes[…].lives.generate", GenerateLives),
        ("lanes[…].transactional", Transactional),
        ("lanes[…].group", Group),
        ("lanes[…].loop", Loop),
        ("lanes[…].share", Share),
        ("workload", WorkloadSpec),
        ("schedule[…]", FaultSpec),
        ("schedule.generate", GenerateSpec),
        ("steps", LockstepSpec),
        ("defect", DefectSpec),
        ("defect.control", ControlSpec),
    ):
        rows = [
            (f"`{key}`", _type(one), _default(one), _sentence(one.description or ""))
            for key, one in keys_of(spec).items()
        ]
        lines += [f"## {title}", "", *_table(("key", "type", "default", "meaning"), rows)]
    steps = ", ".join(f"`{step}`" for step in LockstepStep)
    return "\n".join([*lines, "## Steps of a lock-step phase", "", steps, ""])


def faults() -> str:
    """The fault kinds with the keys that they take, and the targets."""
    from kafka_chaos.faults import target
    from kafka_chaos.faults.registry import fault_kinds

    of_servers = "A fault of ZooKeeper, or of KRaft's controllers, counts as a `session-expiry` of every broker."
    lines = ["# Faults and targets", "", of_servers, ""]
    for kind, fault in fault_kinds().items():
        own = [field for field in dataclasses.fields(fault) if field.name not in ("target", "at", "duration")]
        expected = f"at most one `{fault.counts_as}` of each broker hit" if fault.counts_as else "nothing of brokers"
        lines += [f"## {kind}", "", _prose(fault.__doc__), "", f"The reference model expects {expected}.", ""]
        if own:
            lines += _table(("key", "default"), [(f"`{field.name}`", _plain(field.default)) for field in own])
    return "\n".join([*lines, "## Targets", "", _prose(target.__doc__), "", f"Expected: {target.EXPECTED}.", ""])


def anomalies() -> str:
    """Every anomaly with its short meaning, its specification, and the statement that finds it."""
    from kafka_chaos.verification.statements.library import statements

    lines = [
        "# Anomalies",
        "",
        "The specification of each anomaly, and the statement in SQL that finds it. [What counts as an",
        "anomaly](../anomalies.md) explains the choices that these sentences leave open, what is not judged, and how",
        "verdicts come about.",
        "",
    ]
    introductions = {
        "records": "",
        "transactions": f"The next are for transactional lanes. {_prose(COMMITTED_RECORD)}",
        "groups": "The next are for lanes with a consumer group, the first two for loops.",
    }
    for family, introduction in introductions.items():
        lines += [introduction, ""]
        for anomaly in anomalies_of(family):
            found = statements(family)[anomaly.value]
            lines += [f"## {anomaly}", "", f"*{anomaly.meaning.capitalize()}.*", "", found.specification, ""]
            lines += [f"Counted in {found.unit}. The row in findings/ names: {found.row}.", ""]
            lines += ["```sql", found.sql.strip(), "```", ""]
    return "\n".join(lines)


COMMITTED_RECORD = """
A record is *committed* if, in the final log, the next marker after it of its producer's transactional id is a commit:
that marker decides what `read_committed` consumers are given, whatever the producer learned.
"""


def run_directory() -> str:
    """The files of a run directory, the keys of lanes.json, and the columns of the tables."""
    from kafka_chaos.contract import columns as contract
    from kafka_chaos.contract.lane.lanes import Lane

    lines = [
        "# Run directory",
        "",
        "The contract between the stages of a run, and between kafka-chaos and other tools. You can write such a",
        "directory yourself and verify it. `produced/`, `consumed/` and `lanes.json` are required.",
        "",
        *_table(("path", "content"), [(f"`{path}`", content) for path, content in CONTENTS.items()]),
        "A nullable column may be missing. Times are nanoseconds of one monotonic clock.",
        "",
        "## lanes.json",
        "",
        '`{"format_version": 1, "lanes": [lane, …]}`, where a lane has these keys. `format_version` is 2 as soon as',
        "one lane is transactional, or has a group or a loop. Then `assignments/` is required, too, with transactions",
        "`transactions/`, with groups `commits/`. It is 3 as soon as one has a share group: then `deliveries/` and",
        "`share_starts/` are required, and `dead_letters/` to judge its dead letters. With transactions, `replicas/`",
        "shows the markers that end transactions. `log/`",
        "has the records of aborted transactions like all others.",
        "",
    ]
    rows = [
        (f"`{one.name}`", _field_default(one), _sentence(one.metadata["description"]))
        for one in dataclasses.fields(Lane)
    ]
    lines += _table(("key", "default", "meaning"), rows)
    lines += ["`transactional`, `group`, `loop` and `share` have the keys of [experiments](experiment.md).", ""]
    for name, columns in {**contract.TABLES, "findings": contract.FINDINGS}.items():
        meanings = _meanings(name, COLUMNS[name], [one.name for one in columns])
        rows = [(f"`{one.name}`", one.type, "yes" if one.nullable else "no", meanings[one.name]) for one in columns]
        lines += [f"## {name}/", "", *_table(("column", "type", "nullable", "meaning"), rows)]
    lines += ["## events.jsonl", "", "One JSON object per line: see [events](events.md).", ""]
    return "\n".join([*lines, *_ledger(), ""])


def event_types() -> str:
    """The types of events with their fields."""
    from kafka_chaos.contract import events

    lines = [
        "# Events",
        "",
        "The lines of `events.jsonl`: JSON objects with `ts_ns`, `type` and the fields of the type. `ts_ns` is in",
        "nanoseconds of the clock that the tables of the [run directory](run-directory.md) use.",
        "",
    ]
    for event in events.Event.__subclasses__():
        fields = [field for field in dataclasses.fields(event) if field.name != "ts_ns"]
        kind = event(**{field.name: None for field in fields}).to_json()["type"]
        lines += [f"## {kind}", "", _prose(event.__doc__), ""]
        lines += _table(
            ("field", "type"),
            [
                (f"`{field.name}`", _json_type(inspect.formatannotation(field.type).replace("collections.abc.", "")))
                for field in fields
            ],
        )
    return "\n".join(lines)


def tables_of_statements() -> str:
    """The tables that statements read beside those of a run directory."""
    from kafka_chaos.verification.engines.documents import SCHEMAS

    lines = [
        "# Tables of statements",
        "",
        "The statements in SQL (`verification/statements/`) read the tables of the [run directory](run-directory.md),",
        "and these, which are made of its documents. What is or is not so is 1 or 0.",
        "",
    ]
    for name, columns in SCHEMAS.items():
        rows = [(f"`{column}`", meaning) for column, meaning in columns.items()]
        lines += [f"## {name}", "", *_table(("column", "meaning"), rows)]
    return "\n".join(lines)


def _ledger() -> list[str]:
    """The ledger of verdict.json, object by object."""
    from kafka_chaos.contract import ledger

    lines = ["## The ledger in verdict.json", "", _prose(ledger.__doc__), ""]
    lines += ["| object | fields | meaning |", "| --- | --- | --- |"]
    for part in vars(ledger).values():
        if dataclasses.is_dataclass(part):
            fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(part))
            lines.append(f"| {getattr(part, '__name__', '')} | {fields} | {_prose(part.__doc__)} |")
    return lines


def plugin() -> str:
    """The functions and fixtures of the pytest plugin."""
    from kafka_chaos.harness.pytest_plugin import plugin as loaded
    from kafka_chaos.harness.pytest_plugin import values
    from kafka_chaos.harness.pytest_plugin.clusters import TopicMaker
    from kafka_chaos.harness.pytest_plugin.result import ChaosRun
    from kafka_chaos.harness.pytest_plugin.runs import Runs
    from kafka_chaos.harness.workload.application.handles import ConsumerHandle, Handle, ProducerHandle

    lines = ["# pytest plugin", "", f"Marker: `{loaded.MARKER}`", "", "## Values", ""]
    lines += ["`from kafka_chaos import kill, lane, load, partition, pause, stop`", ""]
    for name in ("lane", "load", "fault"):
        lines += _function(name, getattr(values, name))
    lines += ['Each kind of fault is also a function of that name: `kill(target)` is `fault("kill", target)`.', ""]
    for name in ("at", "lasting"):
        lines += _function(f"FAULT.{name}", getattr(values.PlannedFault, name))
    lines += ["## Fixtures", ""]
    for fixture in ("kafka_chaos_cluster", "kafka_chaos_topic", "kafka_chaos_run"):
        lines += [f"### {fixture}", "", _prose(inspect.getdoc(getattr(loaded, fixture))), ""]
    lines += _function("kafka_chaos_run", Runs.__call__)
    lines += _function("kafka_chaos_topic", TopicMaker.__call__)
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


def _function(name: str, function: Any) -> list[str]:
    signature = inspect.signature(function)
    # Without annotations: the text below says what an argument takes.
    own = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    shown = signature.replace(parameters=own, return_annotation=signature.empty)
    return ["```python", f"{name}{shown}", "```", "", _prose(function.__doc__), ""]


def _meanings(of: str, meanings: Mapping[str, str], names: Iterable[str]) -> Mapping[str, str]:
    """The meanings; raises `LookupError` if they do not belong to exactly these names."""
    different = sorted(set(names) ^ set(meanings))
    if different:
        raise LookupError(f"docs/meanings.py and the code differ in {of}: {', '.join(different)}")
    return meanings


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table, and the blank line after it."""
    lines = [headings, ["---"] * len(headings), *rows]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), ""]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _prose(text: str | None) -> str:
    return inspect.cleandoc(text or "").strip().replace("|", "\\|")


def _json_type(annotation: str) -> str:
    """A field's type in JSON, from its annotation."""
    if annotation.endswith(" | None"):
        return f"{_json_type(annotation.removesuffix(' | None'))} or null"
    plain = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
    collection = {"tuple": "array", "Mapping": "object"}
    return plain.get(annotation) or collection[annotation.partition("[")[0]]


def _type(entry: Any) -> str:
    """The type of a key in words, with its bounds."""
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
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if get_origin(annotation) is Annotated:
        return _words(inner[0])
    if get_origin(annotation) is UnionType:
        return " or ".join(map(_words, inner))
    plain = {str: "text", int: "integer", float: "number", bool: "true or false", Any: "any"}
    return plain.get(annotation) or annotation.__name__.removesuffix("Spec").lower()


def _default(entry: Any) -> str:
    if entry.is_required():
        return "required"
    if entry.default_factory is not None:
        if dataclasses.is_dataclass(entry.annotation):
            return "its own defaults"
        return "random" if entry.annotation is int else "empty"
    return _plain(entry.default)


def _plain(value: object) -> str:
    if value is None:
        return "none"
    if value in ((), {}, ""):
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if isinstance(value, str | int | float | tuple) else "its own defaults"


def _field_default(field: dataclasses.Field[Any]) -> str:
    return "required" if field.default is dataclasses.MISSING else _plain(field.default)


if __name__ == "__main__":
    write()
