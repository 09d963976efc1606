"""Changes real run directories in every table, column, document and key, and looks for a verdict that gets better.

    benchmarks/evidence_sweep.py RUN_DIR… --into table.json [--most 3000] [--bare]

Each run directory is taken as it is, and with planted evidence of what must not conform: an acknowledged record that
is nowhere, a fault without its proof, an aborted record that a read_committed consumer was given, a committed offset
that went back. A run with a manifest gets one that fits what was planted; with `--bare` it has none, as another tool's
run: then relations alone can notice a change. One thing is changed at a time, and DuckDB verifies. A lane that did not
conform before and conforms now is a kinder verdict; any exception but a refusal is a traceback. Both end with exit code
1. The table says for each change how often it came to which outcome.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.run_directory import (
    DOCUMENTS,
    EXPERIMENT_FILE,
    MANIFEST_FILE,
    PREDICTION_FILE,
    RunDirectoryError,
)
from kafka_chaos.harness.workload.history.writer import write_manifest
from kafka_chaos.verification import verify

CHANGED = (*DOCUMENTS, MANIFEST_FILE)
"""The documents that are changed."""
_SETTINGS = (("acks: all", "acks: '1'"), ("idempotence: true", "idempotence: false"), ("lane: ", "lane: x"))
LONGEST_S = 10
"""Of the processor. A changed lane may need a search of the model that takes longer: what it comes to is not known."""
PATHS = 60
"""How many places of a document are changed, drawn at random, and of an event's lines."""
Change = tuple[str, str, Callable[[Path], None]]
"""The changed part, the kind of change, and the function that applies it to a run directory."""


def read(run: Path, table: str) -> pa.Table:
    """A table whole, with every column of the contract that one of its files has. Raises `LookupError` without one."""
    files = sorted((run / table).glob("*.parquet"))
    if not files:
        raise LookupError(f"{run} has no {table}/")
    return pa.concat_tables([pq.read_table(file) for file in files], promote_options="default")


def write(run: Path, table: str, rows: pa.Table) -> None:
    """Put these rows in the place of a table."""
    shutil.rmtree(run / table, ignore_errors=True)
    (run / table).mkdir()
    pq.write_table(rows, run / table / "part-0.parquet")


def put(path: Path, text: str) -> None:
    """Replace a document; the file itself is shared with other copies."""
    path.unlink(missing_ok=True)
    path.write_text(text)


def of_tables(run: Path, lane: str, rng: random.Random) -> Iterator[Change]:
    """Changes of tables and of their columns; single rows are those of `lane`, if it has some."""
    for table in TABLES:
        if not (run / table).is_dir():
            continue
        rows = read(run, table)
        own = pc.indices_nonzero(pc.equal(rows["lane"], lane)).to_pylist() or list(range(len(rows)))
        at = own[rng.randrange(len(own))] if own else 0

        def changed(to: Callable[[pa.Table], pa.Table], table: str = table) -> Callable[[Path], None]:
            return lambda run: write(run, table, to(read(run, table)))

        yield f"{table}/", "drop", lambda run, table=table: shutil.rmtree(run / table)
        yield f"{table}/", "hide", lambda run, table=table: (run / table).rename(run / f".{table}")
        yield f"{table}/", "empty", changed(lambda rows: rows.slice(0, 0))
        yield f"{table}/", "drop the first half", changed(lambda rows: rows.slice(len(rows) // 2))
        yield f"{table}/", "drop the second half", changed(lambda rows: rows.slice(0, len(rows) // 2))
        yield f"{table}/", "double", changed(lambda rows: pa.concat_tables([rows, rows]))
        yield f"{table}/", "drop a lane", changed(lambda rows: rows.filter(pc.not_equal(rows["lane"], lane)))
        for where in dict.fromkeys((*own[:1], at, *own[-1:])):
            single = changed(lambda rows, where=where: pa.concat_tables([rows.slice(0, where), rows.slice(where + 1)]))
            yield f"{table}/", "drop a row", single
            yield (
                f"{table}/",
                "double a row",
                changed(lambda rows, where=where: pa.concat_tables([rows, rows.slice(where, 1)])),
            )
        for column in rows.column_names:
            for name, change in of_column(column, rows, own, at):
                yield f"{table}.{column}", name, changed(change)


def of_column(
    column: str, rows: pa.Table, own: list[int], at: int
) -> Iterator[tuple[str, Callable[[pa.Table], pa.Table]]]:
    """Changes of one column, whole and in row `at`."""
    kind = rows.schema.field(column).type
    other = own[(own.index(at) + 1) % len(own)] if own else 0

    def to(change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
        def changed(rows: pa.Table) -> pa.Table:
            values = pa.array(change(rows[column].to_pylist()), kind)
            return rows.set_column(rows.column_names.index(column), pa.field(column, kind), values)

        return changed

    def one(change: Callable[[list[Any]], Any]) -> Callable[[pa.Table], pa.Table]:
        return to(lambda values: [change(values) if number == at else old for number, old in enumerate(values)])

    yield "drop", lambda rows: rows.drop_columns([column])
    yield "rename", lambda rows: rows.rename_columns({column: f"{column}s"})
    yield "null", to(lambda values: [None] * len(values))
    yield "null in a row", one(lambda values: None)
    yield "rotate", to(lambda values: [*values[1:], *values[:1]])
    yield "another row's in a row", one(lambda values: values[other])
    yield "the first row's", to(lambda values: values[:1] * len(values))
    if not pa.types.is_integer(kind):
        yield "x", to(lambda values: ["x"] * len(values))
        yield "x in a row", one(lambda values: "x")
        return
    for by in (1, -1, 10**9):

        def shifted(value: int | None, by: int = by) -> int | None:
            return None if value is None else min(value + by, 2**31 - 1 if kind == pa.int32() else 2**62)

        yield f"shift by {by}", to(lambda values, shifted=shifted: list(map(shifted, values)))
        yield f"shift a row by {by}", one(lambda values, shifted=shifted: shifted(values[at]))


def places(document: Any) -> Iterator[tuple[Any, ...]]:
    """Every place of a document, as the keys that lead there."""
    if isinstance(document, dict | list):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            yield (key,)
            yield from ((key, *rest) for rest in places(document[key]))


def of_value(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values in the place of one."""
    yield "null", None
    if isinstance(value, bool):
        yield "flip", not value
    elif isinstance(value, int):
        yield from ((f"shift by {by}", value + by) for by in (1, -1, 10**9))
        yield "text", str(value)
    elif isinstance(value, str):
        yield "x", "x"
        yield "another setting", {"all": "0", "1": "0", "0": "all", "forbidden": "permitted"}.get(value, f"{value} ")
    elif isinstance(value, list):
        yield "double", value + value
        yield "drop the last", value[:-1]
        yield "one kill more", [*value, "kill"]
    elif isinstance(value, dict):
        yield "empty", {}


def at_place(document: Any, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy of the document, changed at a place: `change` gets the container and the key."""
    copy = json.loads(json.dumps(document))
    container = copy
    for key in place[:-1]:
        container = container[key]
    change(container, place[-1])
    return copy


def renamed(container: Any, key: Any) -> None:
    """The key under another name; of a list, its entry at the end."""
    value = container.pop(key)
    container[f"{key}s"] = value if isinstance(container, dict) else container.append(value)


def of_json(document: Any, rng: random.Random, *, keep: tuple[Any, ...] = ()) -> Iterator[tuple[str, str, Any]]:
    """Changes of a document: the place as text, how, and the changed document."""
    known = [place for place in places(document) if place[-1:] != keep]
    for place in rng.sample(known, min(PATHS, len(known))):
        shown = ".".join("*" if isinstance(key, int) else key for key in place[-2:])
        yield shown, "drop", at_place(document, place, lambda container, key: container.pop(key))
        if isinstance(place[-1], str):
            yield shown, "rename", at_place(document, place, renamed)
        value: Any = document
        for key in place:
            value = value[key]
        for name, other in of_value(value):
            yield (
                shown,
                name,
                at_place(document, place, lambda container, key, other=other: container.__setitem__(key, other)),
            )


def of_documents(run: Path, rng: random.Random) -> Iterator[Change]:
    """Changes of documents and of their keys."""
    for name in CHANGED:
        path = run / name
        if not path.exists():
            continue
        text = path.read_text()
        yield name, "drop", lambda run, name=name: (run / name).unlink()
        yield name, "hide", lambda run, name=name: (run / name).rename(run / f".{name}")
        yield name, "empty", lambda run, name=name: put(run / name, "")
        yield name, "cut", lambda run, name=name, text=text: put(run / name, text[: len(text) // 2])
        if name.endswith(".json"):
            yield (
                name,
                "double the keys",
                lambda run, name=name, text=text: put(
                    run / name, text.replace("{", '{"lanes": {}, ', 1).replace("{", '{"brokers": {}, "groups": {}, ', 1)
                ),
            )
            for shown, how, other in of_json(json.loads(text), rng):
                yield f"{name} {shown}", how, lambda run, name=name, other=other: put(run / name, json.dumps(other))
        elif name.endswith(".jsonl"):
            yield from of_events([json.loads(line) for line in text.splitlines()], rng)
        else:
            for before, after in _SETTINGS:
                other = text.replace(before, after)
                yield f"{name} {before}", after, lambda run, name=name, other=other: put(run / name, other)


def of_events(events: list[dict[str, Any]], rng: random.Random) -> Iterator[Change]:
    """Changes of events by type, and of the fields of one of each."""

    def lines(changed: list[dict[str, Any]]) -> Callable[[Path], None]:
        text = "".join(json.dumps(event) + "\n" for event in changed)
        return lambda run: put(run / "events.jsonl", text)

    for kind in dict.fromkeys(event["type"] for event in events):
        of_kind = [number for number, event in enumerate(events) if event["type"] == kind]
        yield f"events.jsonl {kind}", "drop all", lines([event for event in events if event["type"] != kind])
        at = of_kind[rng.randrange(len(of_kind))]
        yield f"events.jsonl {kind}", "drop one", lines([*events[:at], *events[at + 1 :]])
        yield f"events.jsonl {kind}", "double one", lines([*events, events[at]])
        yield f"events.jsonl {kind}", "first", lines([events[at], *events[:at], *events[at + 1 :]])
        for shown, how, other in of_json(events[at], rng):
            yield f"events.jsonl {kind}.{shown}", how, lines([*events[:at], other, *events[at + 1 :]])


def without_proof(run: Path) -> str:
    """A fault without its proof: every lane is unknown."""
    path = run / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"fault_proven"' not in line]
    if kept == lines:
        raise LookupError(f"{run} has no fault that was proven")
    put(path, "".join(kept))
    return ""


def lost_write(run: Path) -> str:
    """An acknowledged record of a lane in which nothing may be lost is nowhere."""
    lane = next(
        lane["lane"]
        for lane in json.loads((run / "lanes.json").read_text())["lanes"]
        if lane["idempotence"] and not any(lane.get(key) for key in ("transactional", "loop", "cleanup_policy"))
    )
    predicted = json.loads((run / PREDICTION_FILE).read_text())["lanes"][lane]["anomalies"]
    if predicted["lost_write"]["status"] != "forbidden":
        raise LookupError(f"{run}: its faults may cost lane {lane} records")
    produced = read(run, "produced")
    of = produced.filter(pc.and_(pc.equal(produced["lane"], lane), pc.equal(produced["outcome"], "ok")))
    who = [of[name][len(of) // 2].as_py() for name in ("producer_id", "seq")]
    for table in ("log", "consumed", "replicas"):
        rows = read(run, table)
        same = [
            pc.equal(rows[name], value)
            for name, value in zip(("lane", "producer_id", "seq"), (lane, *who), strict=True)
        ]
        write(run, table, rows.filter(pc.invert(pc.and_(pc.and_(same[0], same[1]), same[2]))))
    return lane


def aborted_read(run: Path) -> str:
    """A consumer of committed records is given one of an aborted transaction."""
    transactions, log, reads = read(run, "transactions"), read(run, "log"), read(run, "consumed")
    aborted = transactions.filter(pc.equal(transactions["outcome"], "aborted")).to_pylist()
    wanted = {(row["lane"], row["producer_id"], row["transaction"]) for row in aborted}
    sent = {
        (row["lane"], row["producer_id"], row["seq"])
        for row in read(run, "produced").to_pylist()
        if (row["lane"], row["producer_id"], row["transaction"]) in wanted
    }
    assigned = [
        row for row in read(run, "assignments").to_pylist() if row["isolation"] == "read_committed" and not row["group"]
    ]
    for row in log.to_pylist():
        for reader in assigned:
            if (row["lane"], row["producer_id"], row["seq"]) in sent and (reader["lane"], reader["partition"]) == (
                row["lane"],
                row["partition"],
            ):
                own = reads.filter(
                    pc.and_(
                        pc.equal(reads["consumer"], reader["consumer"]),
                        pc.and_(
                            pc.equal(reads["partition"], row["partition"]), pc.less(reads["offset"], row["offset"])
                        ),
                    )
                )
                at = max(own["poll_ns"].to_pylist(), default=reader["start_ns"]) + 1
                given = {name: row.get(name) for name in reads.column_names} | {
                    "consumer": reader["consumer"],
                    "poll_ns": at,
                }
                write(run, "consumed", pa.concat_tables([reads, pa.Table.from_pylist([given], reads.schema)]))
                return str(row["lane"])
    raise LookupError("no aborted record in the log")


def commit_lost(run: Path) -> str:
    """A group has committed less in the end than was acknowledged."""
    document = json.loads((run / "groups.json").read_text())
    group, entries = next((group, of) for group, of in document["groups"].items() if group.endswith("-group"))
    earlier = sorted(
        {
            row["offset"]
            for row in read(run, "commits").to_pylist()
            if row["group"] == group and f"{row['lane']}/{row['partition']}" == min(entries)
        }
    )
    entries[min(entries)] = earlier[0]
    put(run / "groups.json", json.dumps(document))
    return group.removesuffix("-group")


PLANTS: tuple[Callable[[Path], str], ...] = (without_proof, lost_write, aborted_read, commit_lost)


def copied(run: Path, folder: Path) -> Path:
    """The run directory once more, of linked files, without what verification does not read."""
    ignored = shutil.ignore_patterns("logs", "findings", "trace", "*.html", "verdict.json")
    return Path(shutil.copytree(run, folder, ignore=ignored, copy_function=os.link))


def without_manifest(run: Path) -> None:
    """Remove the manifest, and what experiment.yaml says of it."""
    (run / MANIFEST_FILE).unlink(missing_ok=True)
    path = run / EXPERIMENT_FILE
    if path.exists():
        put(path, path.read_text().replace(f"\n  manifest: {MANIFEST_FILE}\n", "\n"))


def outcomes(run: Path) -> tuple[str, dict[str, Verdict], str]:
    """The outcome of a verification, the lanes' verdicts, and the refusal or the traceback."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        verdict = verify(run, engine="duckdb", write=False)
    except RunDirectoryError as error:
        return "refused", {}, str(error)
    except TooLong:
        return "searched", {}, ""
    except Exception:  # noqa: BLE001 - that any other one is a finding is the point
        return "traceback", {}, traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return str(verdict.verdict), {lane.lane: lane.verdict for lane in verdict.lanes}, ""


class TooLong(Exception):
    """A verification took longer than `LONGEST_S`. No `OSError`, which would be told as a file that can't be read."""


def _timed_out(*_: object) -> None:
    raise TooLong


def swept(
    run: Path, plant: Callable[[Path], str] | None, most: int, seed: int, *, is_bare: bool
) -> Iterator[dict[str, Any]]:
    """The changes of one run directory with their outcomes."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-sweep-") as scratch:
        base = copied(run, Path(scratch) / "base")
        if is_bare:
            without_manifest(base)
        try:
            lane = plant(base) if plant else json.loads((base / "lanes.json").read_text())["lanes"][0]["lane"]
        except (LookupError, StopIteration, OSError):
            return
        if plant and (base / MANIFEST_FILE).exists():
            (base / MANIFEST_FILE).unlink()  # The file is shared with the run.
            write_manifest(base)
        before, lanes, problem = outcomes(base)
        if before in {"traceback", "refused"} or (plant and before == "conforms"):
            raise SystemExit(f"{run} with {plant and plant.__name__}: {before} {problem}")
        changes = list(itertools.chain(of_tables(base, lane, rng), of_documents(base, rng)))
        for number, (what, how, change) in enumerate(rng.sample(changes, min(most, len(changes)))):
            changed = copied(base, Path(scratch) / str(number))
            change(changed)
            after, now, problem = outcomes(changed)
            conforming = [name for name, verdict in now.items() if verdict == Verdict.CONFORMS]
            kinder = [name for name in conforming if lanes.get(name, Verdict.CONFORMS) != Verdict.CONFORMS]
            shutil.rmtree(changed)
            name = plant.__name__ if plant else "as it is"
            yield {
                "base": name,
                "was": before,
                "what": what,
                "how": how,
                "is": after,
                "kinder": kinder,
                "problem": problem,
            }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN_DIR")
    parser.add_argument("--into", type=Path, help="a JSON file for every change with its outcome")
    parser.add_argument("--most", type=int, default=3000, help="how many changes, of all that there are")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bare", action="store_true", help="as if another tool had made the runs: without a manifest")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPROF, _timed_out)
    started, found = time.monotonic(), []
    bases = [(run, plant) for run in arguments.runs for plant in (None, *PLANTS)]
    for run, plant in bases:
        found += swept(run, plant, -(-arguments.most // len(bases)), arguments.seed, is_bare=arguments.bare)
    counts = Counter((one["base"], one["was"], one["is"]) for one in found)
    for (base, was, now), count in sorted(counts.items()):
        print(f"{base:>14}  {was:>9} → {now:<9} {count:>5}")
    kinder = [one for one in found if one["kinder"]]
    broken = [one for one in found if one["is"] == "traceback"]
    for one in (*kinder, *broken):
        print(
            f"{one['base']}: {one['what']}, {one['how']}: {one['was']} → {one['is']} {one['kinder']}",
            one["problem"][-400:],
        )
    seconds = time.monotonic() - started
    print(f"{len(found):,} changes in {seconds:.0f} s: {len(kinder)} kinder verdicts, {len(broken)} tracebacks")
    if arguments.into:
        arguments.into.write_text(json.dumps(found, indent=0))
    sys.exit(bool(kinder or broken))


if __name__ == "__main__":
    main()
