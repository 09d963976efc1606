"""Whether what is found in histories of Jepsen's kafka workload is what Jepsen's rules find there.

usage: jepsen_agreement.py [--histories 1000] [--together 100] [--seed 0]

The histories are random transactions that send and poll on a log that is right, or wrong in one way. `RULES` states
Jepsen's rules on operations, as jepsen.tests.kafka describes them: an error is found if its counterpart among the
anomalies is, and the other way round. docs/importers.md says where the two differ on purpose; no history has that.
Prints how many histories have each error, and ends with an AssertionError at the first that differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import rustworkx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.verification.conftest import forbid_everything  # noqa: E402
from tests.verification.importers.jepsen_cases import COUNTERPARTS  # noqa: E402
from tests.verification.importers.test_jepsen_cases import imported, together  # noqa: E402
from tests.verification.samples.engines import verified_by_duckdb  # noqa: E402

Place = tuple[str, int]
"""A key and an offset."""
WRONG = ("nothing", "aborted", "uncommitted", "own", "skipped", "backwards", "lost", "twice", "another offset")
"""What may be wrong with a history: a poll gives what it must not, or the log has not what it should."""


@dataclass
class Transaction:
    """An operation: its process, its sends by place, and what its polls have read, each (key, offset, value)."""

    process: int
    type: str
    sends: list[tuple[str, int, int]] = field(default_factory=list)
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    invoke: int = 0
    complete: int = 0


class Log:
    """The keys of a history, each a log of (value, transaction); a marker has no value."""

    def __init__(self, random: Random, keys: int, wrong: str) -> None:
        self.random, self.wrong = random, wrong
        self.logs: dict[str, list[tuple[int | None, Transaction]]] = {f"k{number}": [] for number in range(keys)}
        self.position: dict[tuple[int, str], int] = defaultdict(int)
        self.ended: set[int] = set()

    def send(self, transaction: Transaction, value: int) -> None:
        """Append a record to one of the keys."""
        key = self.random.choice(list(self.logs))
        transaction.sends.append((key, len(self.logs[key]), value))
        self.logs[key].append((value, transaction))
        if self.goes_wrong("twice"):
            self.logs[key].append((value, transaction))

    def end(self, transaction: Transaction) -> None:
        """Append the markers of a transaction."""
        self.ended.add(id(transaction))
        for key in {key for key, _, _ in transaction.sends}:
            self.logs[key].append((None, transaction))

    def goes_wrong(self, how: str, share: float = 0.3) -> bool:
        """Whether it goes wrong this time, in this way."""
        return self.wrong == how and self.random.random() < share

    def poll(self, reader: Transaction) -> None:
        """Read each key on, up to the last stable offset; what is wrong may change what is given."""
        for key, log in self.logs.items():
            at = self.position[reader.process, key]
            if self.goes_wrong("backwards"):
                at = max(0, at - 2)
            for offset in range(at, min(len(log), at + 4)):
                value, writer = log[offset]
                if id(writer) not in self.ended and not self._is_shown(writer, reader):
                    break
                at = offset + 1
                is_given = value is not None and (writer.type != "fail" or self.goes_wrong("aborted"))
                if value is not None and is_given and not self.goes_wrong("skipped"):
                    reader.reads.append((key, offset, value))
            self.position[reader.process, key] = max(at, self.position[reader.process, key])

    def _is_shown(self, writer: Transaction, reader: Transaction) -> bool:
        return self.wrong in ("uncommitted", "own") and (writer is reader) == (self.wrong == "own")


def drawn(random: Random) -> list[Transaction]:
    """The transactions of a history, in the order in which they were invoked. Several are open at a time."""
    log, values = Log(random, random.randint(1, 3), random.choice(WRONG)), iter(range(10_000))
    open_ones: list[Transaction] = []
    all_ones: list[Transaction] = []
    clock = 0
    for _ in range(random.randint(60, 160)):
        clock += 10
        idle = sorted({*range(4)} - {one.process for one in open_ones})
        if idle and (not open_ones or random.random() < 0.4):
            kind = random.choices(["ok", "fail", "info"], [8, 1, 1])[0]
            open_ones.append(Transaction(random.choice(idle), kind, invoke=clock))
            all_ones.append(open_ones[-1])
            continue
        one = random.choice(open_ones)
        step = random.random()
        if step < 0.4 or not one.sends:
            log.send(one, next(values))
        elif step < 0.7 and one.type == "ok":
            log.poll(one)
        else:
            one.complete = clock
            log.end(one)
            open_ones.remove(one)
    for one in open_ones:
        one.complete, clock = clock + 10, clock + 10
        log.end(one)
    for one in all_ones:
        if one.type == "ok" and one.sends and log.goes_wrong("another offset"):
            key, offset, value = one.sends[0]
            one.sends[0] = key, offset + 50, value
    lost = {value for one in all_ones for _, _, value in one.sends if log.goes_wrong("lost", 0.05)}
    for one in all_ones:
        one.reads = [read for read in one.reads if read[2] not in lost]
    return [one for one in all_ones if one.sends]


def operations(transactions: list[Transaction]) -> list[dict[str, Any]]:
    """The history as Jepsen writes it."""
    lines = []
    for one in transactions:
        begun = {"process": one.process, "f": "txn"}
        polls: list[list[Any]] = [["poll"]] if one.reads else []
        sends = [["send", key, value] for key, _, value in one.sends]
        lines.append((one.invoke, {**begun, "type": "invoke", "value": [*sends, *polls]}))
        if one.type == "ok":
            sends = [["send", key, [offset, value]] for key, offset, value in one.sends]
            read: dict[str, list[list[int]]] = defaultdict(list)
            for key, offset, value in one.reads:
                read[key].append([offset, value])
            polls = [["poll", read]] if read else []
        lines.append((one.complete, {**begun, "type": one.type, "value": [*sends, *polls]}))
    return [{**line, "time": time} for time, line in sorted(lines, key=lambda one: one[0])]


def errors(transactions: list[Transaction]) -> Iterator[str]:
    """The errors that Jepsen's rules find; reads count only of operations that ended with ok."""
    ok = [one for one in transactions if one.type == "ok"]
    reads = [(reader, *read) for reader in ok for read in reader.reads]
    writer = {value: one for one in transactions for _, _, value in one.sends}
    seen = {value for *_, value in reads}
    if any(writer[value].type == "fail" for *_, value in reads):
        yield "G1a"
    if any(writer[value] is reader for reader, *_, value in reads):
        yield "precommitted-read"
    graph: rustworkx.PyDiGraph[None, None] = rustworkx.PyDiGraph()
    number = {id(one): at for at, one in enumerate(transactions)}
    graph.add_nodes_from([None] * len(transactions))
    for reader, *_, value in reads:
        if writer[value].type != "fail" and writer[value] is not reader:
            graph.add_edge(number[id(writer[value])], number[id(reader)], None)
    if any(len(cycle) > 1 for cycle in rustworkx.strongly_connected_components(graph)):
        yield "G1c"
    # An operation in doubt whose record was read is committed; no history has an offset of one.
    told = [(key, offset, value) for one in ok for key, offset, value in one.sends]
    places, held = defaultdict(set), defaultdict(set)
    for key, offset, value in [*told, *(read[1:] for read in reads)]:
        places[value].add((key, offset))
        held[key, offset].add(value)
    if any(len(found) > 1 for found in places.values()):
        yield "duplicate"
    if any(len(found) > 1 for found in held.values()):
        yield "inconsistent-offsets"
    end: dict[str, int] = {}
    for _, key, offset, _ in reads:
        end[key] = max(offset, end.get(key, -1))
    if any(value not in seen and offset < end.get(key, -1) for key, offset, value in told):
        yield "lost-write"
    sent: dict[tuple[int, str], int] = {}
    for one in transactions:
        for key, _, value in one.sends:
            if value in places:
                _, offset = min(places[value])
                if offset <= sent.get((one.process, key), -1):
                    yield "nonmonotonic-send"
                sent[one.process, key] = offset
    last: dict[tuple[int, str], int] = {}
    for reader in sorted(ok, key=lambda one: one.complete):
        for key, offset, _ in reader.reads:
            before = last.get((reader.process, key))
            last[reader.process, key] = offset
            if before is not None and offset <= before:
                yield "nonmonotonic-poll"
            elif before is not None and any((key, between) in held for between in range(before + 1, offset)):
                yield "poll-skip"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000, metavar="N")
    parser.add_argument("--together", type=int, default=100, metavar="N", help="histories in a run directory")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random, counts = Random(options.seed), Counter[str]()
    anomalies = {error: str(COUNTERPARTS[error]) for error in COUNTERPARTS if not error.startswith("int-")}
    with pytest.MonkeyPatch.context() as patch:
        forbid_everything(patch)
        for first in range(0, options.histories, options.together):
            histories = {f"h{first + at}": drawn(random) for at in range(options.together)}
            with tempfile.TemporaryDirectory(prefix="kafka-chaos-jepsen-") as scratch:
                runs = {name: imported(Path(scratch), operations(of), name) for name, of in histories.items()}
                verdict = verified_by_duckdb(together(Path(scratch) / "all", runs))
            for name, transactions in histories.items():
                found = {str(anomaly) for anomaly, seen in verdict.lane(name).observed.items() if seen.count}
                expected = {*errors(transactions)}
                counts.update(expected or {"none"})
                for anomaly in sorted({*anomalies.values()}):
                    by_jepsen = {error for error in expected if anomalies[error] == anomaly}
                    told = json.dumps(operations(transactions))
                    assert (anomaly in found) == bool(by_jepsen), f"{name}: {anomaly}, {by_jepsen or 'nothing'}: {told}"
    print(f"{options.histories} histories agree: {json.dumps(dict(sorted(counts.items())))}")


if __name__ == "__main__":
    main()
