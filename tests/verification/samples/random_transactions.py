"""Random little histories of transactional lanes: mostly plausible, then damaged anywhere."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.verification.oracle.rows import Assigned, LaneHistory, Produced, Read, Replicated, Stored, Transaction

SECOND = 1_000_000_000


@dataclass
class Writer:
    """One incarnation of a transactional id."""

    producer_id: int
    transactional_id: str
    seq: int = 0
    transaction: int = 0
    begin_ns: int | None = None
    touched: set[int] = field(default_factory=set)
    lacks: bool = False
    initialised_ns: int | None = None


class Lane:
    """A topic to which writers append transactions."""

    def __init__(self, random: Random, partitions: int) -> None:
        self.random = random
        self.ends = [0] * partitions
        self.clock = 1
        self.writers: dict[int, Writer] = {}
        self.history = LaneHistory(log=[], timeout_ms=random.choice([1, 5_000, 60_000]))

    def tick(self) -> int:
        self.clock += self.random.choice([1, 1, 1, 1000, SECOND])
        return self.clock

    def begin(self, writer: Writer) -> None:
        writer.begin_ns = self.tick()
        writer.touched, writer.lacks = set(), False

    def send(self, writer: Writer, outcome: str = "ok", *, partition: int | None = None) -> None:
        partition = self.random.randrange(len(self.ends)) if partition is None else partition
        written = outcome == "ok" or (outcome == "info" and self.random.random() < 0.5)
        offset = self.ends[partition] if written else None
        row = Produced(
            writer.producer_id,
            writer.seq,
            partition,
            offset if outcome == "ok" else None,
            outcome,
            writer.transaction,
            self.tick(),
            self.tick(),
        )
        self.history.produced.append(row)
        if offset is not None:
            assert self.history.log is not None
            self.history.log.append(Stored(partition, offset, writer.producer_id, writer.seq))
            self._replicate(partition, writer.producer_id, writer.seq, "data")
            writer.touched.add(partition)
        elif outcome == "info":
            writer.lacks = True
        writer.seq += 1

    def end(self, writer: Writer, outcome: str) -> None:
        assert writer.begin_ns is not None
        outcome = "aborted" if writer.lacks else outcome
        by = {"committed": "commit", "aborted": "abort"}.get(outcome) or self.random.choice(["commit", "abort"])
        if by is not None:
            for partition in writer.touched:
                self._replicate(partition, writer.producer_id, -1, by)
        asked_ns = self.tick()
        self.history.transactions.append(
            Transaction(
                writer.producer_id,
                writer.transaction,
                writer.transactional_id,
                writer.begin_ns,
                self.tick(),
                outcome,
                writer.initialised_ns,
                commit_ns=asked_ns if outcome != "aborted" and self.random.random() < 0.8 else None,
            )
        )
        writer.transaction += 1
        writer.begin_ns = None

    def _replicate(self, partition: int, producer_id: int, seq: int, kind: str) -> None:
        for broker in range(3):
            self.history.replicas.append(Replicated(partition, broker, self.ends[partition], 0, producer_id, seq, kind))
        self.ends[partition] += 1

    def read_within(self, writer: Writer) -> None:
        """Let the writer's reader read some records of the log, within the open transaction and at its time."""
        reader = f"reader-{writer.producer_id}-{self.tick()}"
        rows = self.random.sample(self.history.log or [], min(len(self.history.log or []), 2))
        for row in sorted(rows, key=lambda one: (one.partition, one.offset)):
            self.history.assignments.append(Assigned(reader, row.partition, "read_committed"))
            within = {"reading_producer_id": writer.producer_id, "reading_transaction": writer.transaction}
            self.history.consumed.append(Read(reader, *row, poll_ns=self.tick(), **within))

    def read(self, consumer: str, isolation: str) -> None:
        """Read the log from its begin to its end, in the order of partitions."""
        from tests.verification.oracle.rows import fates_of

        fates = fates_of(self.history)
        for partition in range(len(self.ends)):
            self.history.assignments.append(Assigned(consumer, partition, isolation))
        for row in self.history.log or ():
            if isolation == "read_uncommitted" or fates[row] == "commit":
                self.history.consumed.append(Read(consumer, *row, poll_ns=self.tick()))


def random_transactions(random: Random, *, steps: int = 60, damage: int | None = None) -> LaneHistory:
    """One transactional lane."""
    lane = Lane(random, random.randint(1, 3))
    writers = [Writer(number, f"t{number}") for number in range(random.randint(1, 3))]
    produced_by = len(writers)
    reads = random.random() < 0.3
    for _ in range(steps):
        index = random.randrange(len(writers))
        writer = writers[index]
        if writer.begin_ns is None:
            if random.random() < 0.1:
                writers[index] = successor = Writer(produced_by, writer.transactional_id)
                successor.initialised_ns = random.choice([None, lane.tick()])
                if damage is None and random.random() < 0.2:
                    writers.append(writer)  # a zombie
                writer = successor
                produced_by += 1
            lane.begin(writer)
        elif reads and random.random() < 0.1:
            lane.read_within(writer)
        elif random.random() < 0.7:
            lane.send(writer, random.choice(["ok"] * 8 + ["info", "fail"]))
        else:
            lane.end(writer, random.choice(["committed"] * 4 + ["aborted", "info"]))
    if random.random() < 0.8:
        for writer in writers:
            if writer.begin_ns is not None:
                lane.end(writer, "aborted")
    lane.clock += random.choice([0, 0, 40, 100]) * SECOND
    for number in range(random.choice([1, 1, 2])):
        lane.read(f"c{number}", random.choice(["read_committed", "read_committed", "read_uncommitted"]))
    if random.random() < 0.5:
        lane.read("all", "read_uncommitted")
    for _ in range(random.choice([0, 1, 1, 2, 4]) if damage is None else damage):
        _damage(random, lane.history)
    lane.history.healed_ns = 0
    return lane.history


def _damage(random: Random, history: LaneHistory) -> None:
    tables: list[Any] = [history.produced, history.consumed, history.log, history.transactions, history.assignments]
    markers = [index for index, row in enumerate(history.replicas) if row.kind != "data"]
    if markers and random.random() < 0.4:
        index = random.choice(markers)
        row = history.replicas[index]
        changes: list[dict[str, Any]] = [
            {"kind": "abort" if row.kind == "commit" else "commit"},
            {"producer_id": random.randrange(4)},
        ]
        for twin, other in enumerate(history.replicas):
            if (other.partition, other.offset) == (row.partition, row.offset):
                history.replicas[twin] = other._replace(**random.choice(changes))
        if random.random() < 0.3:
            place = (row.partition, row.offset)
            history.replicas = [one for one in history.replicas if (one.partition, one.offset) != place]
        return
    rows = random.choice(tables)
    if not rows:
        return
    index = random.randrange(len(rows))
    row = rows[index]
    kind = random.choice(["drop", "change", "change", "tail"])
    if kind == "drop":
        del rows[index]
    elif kind == "tail":
        del rows[index + random.randrange(4) :]
    elif isinstance(row, Transaction):
        change = {"outcome": random.choice(["committed", "aborted", "info"])}
        asked = {"commit_ns": random.choice(history.transactions).begin_ns}
        begun = {"begin_ns": random.choice(history.transactions).begin_ns + random.choice([-1, 0, 1])}
        rows[index] = row._replace(**random.choice([change, asked, begun]))
    elif isinstance(row, Produced):
        change = {"outcome": random.choice(["ok", "fail", "info"])}
        rows[index] = row._replace(**random.choice([change, {"transaction": random.choice([None, 0, 1, 2])}]))
    elif isinstance(row, Assigned):
        rows[index] = row._replace(isolation=random.choice(["read_committed", "read_uncommitted"]))
    else:
        other = random.choice(rows)
        rows[index] = row._replace(producer_id=other.producer_id, seq=other.seq)
