"""A clean transactional lane, and each anomaly planted in it."""

from collections.abc import Callable
from random import Random

from tests.verification.oracle.rows import Assigned, Case, LaneHistory, Produced, Read, Stored
from tests.verification.samples.random_transactions import SECOND, Lane, Writer

PARTITIONS, SIZE, TRANSACTIONS = 2, 6, 12


def lane() -> Lane:
    """Two producers take turns; every fifth transaction is aborted. Nobody has read it yet."""
    made = Lane(Random(7), PARTITIONS)
    made.history.timeout_ms = 5_000
    for number in range(TRANSACTIONS):
        transaction(made, WRITERS[number % 2](made), "aborted" if number % 5 == 4 else "committed")
    return made


def _writer(number: int) -> Callable[[Lane], Writer]:
    def of(made: Lane) -> Writer:
        return made.writers.setdefault(number, Writer(number, f"t{number}"))

    return of


WRITERS = [_writer(0), _writer(1)]


def transaction(made: Lane, writer: Writer, outcome: str) -> None:
    """A whole transaction, over all partitions."""
    made.begin(writer)
    for index in range(SIZE):
        made.send(writer, partition=index % PARTITIONS)
    made.end(writer, outcome)


def read(made: Lane) -> LaneHistory:
    """The lane, read to its end in both isolation levels."""
    made.read("committed", "read_committed")
    made.read("everything", "read_uncommitted")
    return made.history


def clean() -> tuple[LaneHistory, list[Case]]:
    """No anomaly."""
    return read(lane()), []


def aborted_read() -> tuple[LaneHistory, list[Case]]:
    """A consumer of committed records is given one that is not."""
    history = read(lane())
    aborted = next(row for row in history.transactions if row.outcome == "aborted")
    of = _records(history, aborted.producer_id, aborted.transaction)[2]
    _read_early(history, of, 1)
    return history, [_case("aborted_read", of)]


def aborted_read_of_one_in_doubt() -> tuple[LaneHistory, list[Case]]:
    """The same of a transaction whose producer does not know how it ended: its marker says so."""
    history, cases = aborted_read()
    of = next(row for row in history.transactions if row.outcome == "aborted")
    history.transactions[history.transactions.index(of)] = of._replace(outcome="info")
    return history, cases


def precommitted_read() -> tuple[LaneHistory, list[Case]]:
    """A consumer of committed records is given one before its commit was asked for."""
    history = read(lane())
    of = _records(history, 0, 1)[2]
    _read_early(history, of, 1)
    return history, [_case("precommitted_read", of)]


def precommitted_read_of_its_own() -> tuple[LaneHistory, list[Case]]:
    """A transaction reads a record of its own; nobody knows when its commit was asked for."""
    made, one, _ = _two_open()
    _read_early(made.history, of := made.history.produced[-2], made.tick(), within=one)
    return _committed(made), [_case("precommitted_read", of)]


def reads_in_a_cycle() -> tuple[LaneHistory, list[Case]]:
    """Each of two transactions reads a record of the other; nobody knows when their commits were asked for."""
    made, one, two = _two_open()
    of_one, of_two = made.history.produced[-2:]
    _read_early(made.history, of_one, made.tick(), within=two)
    _read_early(made.history, of_two, made.tick(), within=one)
    return _committed(made), [_case("precommitted_read", of_one), _case("dependency_cycle", of_one)]


def torn_transaction() -> tuple[LaneHistory, list[Case]]:
    """In one partition, a committed transaction is aborted."""
    history = read(lane())
    lacking = [row for row in _records(history, 0, 1) if row.partition == 1]
    _abort(history, lacking)
    return history, [_case("torn_transaction", lacking[0])]


def given_in_part() -> tuple[LaneHistory, list[Case]]:
    """A consumer of committed records steps over one of them."""
    history = read(lane())
    missed = _records(history, 1, 3)[3]
    _not_given(history, [missed])
    return history, [_case(name, missed) for name in ("skipped_poll", "torn_transaction", "unseen")]


def begins_late() -> tuple[LaneHistory, list[Case]]:
    """No consumer of committed records is given those of the first transaction, in one partition."""
    history = read(lane())
    missed = [row for row in _records(history, 0, 0) if row.partition == 1]
    _not_given(history, missed)
    return history, [_case("unseen", row) for row in missed]


def lost_transaction() -> tuple[LaneHistory, list[Case]]:
    """Its commit was acknowledged, and all of its markers are aborts."""
    history = read(lane())
    records = _records(history, 0, 1)
    _abort(history, records)
    return history, [_case("lost_transaction", records[0])]


def zombie_commit() -> tuple[LaneHistory, list[Case]]:
    """A producer commits what it sent after its successor was initialised."""
    made = lane()
    successor = Writer(2, "t0", initialised_ns=made.tick())
    transaction(made, WRITERS[0](made), "committed")
    transaction(made, successor, "committed")
    last = WRITERS[0](made).transaction - 1
    return read(made), [_case("zombie_commit", _records(made.history, 0, last)[0])]


def written_by_a_zombie() -> tuple[LaneHistory, list[Case]]:
    """The same, but nobody has told the producer: its records are committed all the same."""
    history, cases = zombie_commit()
    late = max((row for row in history.transactions if row.producer_id == 0), key=lambda row: row.transaction)
    history.transactions[history.transactions.index(late)] = late._replace(outcome="info")
    return history, cases


def commit_asked_for_late() -> tuple[LaneHistory, list[Case]]:
    """A producer commits, after its successor was initialised, what it had sent before."""
    history = _fenced(is_late=True)
    return history, [_case("zombie_commit", _records(history, 0, history.transactions[-2].transaction)[0])]


def commit_answered_late() -> tuple[LaneHistory, list[Case]]:
    """The same, but the commit was asked for before: it may have come first."""
    return _fenced(is_late=False), []


def _fenced(*, is_late: bool) -> LaneHistory:
    """The lane, where a producer's last commit, asked for before or after (`is_late`) its successor was initialised,
    succeeds after that."""
    made = lane()
    writer, successor = WRITERS[0](made), Writer(2, "t0")
    made.begin(writer)
    made.send(writer, partition=0)
    moments = [made.tick(), made.tick(), made.tick()]
    successor.initialised_ns = moments[1]
    made.end(writer, "committed")
    transaction(made, successor, "committed")
    rows = made.history.transactions
    rows[:] = [row._replace(initialised_ns=row.initialised_ns or 1) for row in rows]
    rows[-2] = rows[-2]._replace(commit_ns=moments[2 if is_late else 0])
    return read(made)


def hanging_transaction() -> tuple[LaneHistory, list[Case]]:
    """A transaction stays open long after its time-out."""
    made = lane()
    writer = WRITERS[1](made)
    made.begin(writer)
    for _ in range(3):
        made.send(writer, partition=1)
    writer.touched = set()
    made.end(writer, "info")
    made.clock += 36 * SECOND
    return read(made), [_case("hanging_transaction", _records(made.history, 1, writer.transaction - 1)[0])]


def hanging_behind_a_stale_marker() -> tuple[LaneHistory, list[Case]]:
    """A replica that was left behind has a marker which no leader has, and does not know the writer of another one."""
    history, cases = hanging_transaction()
    stale = max(row for row in history.replicas if row.partition == 1)
    history.replicas.append(stale._replace(offset=stale.offset + 1, kind="abort"))
    at = next(at for at, row in enumerate(history.replicas) if row.kind == "commit" and row.broker == stale.broker)
    history.replicas[at] = history.replicas[at]._replace(producer_id=-1)
    return history, cases


def hanging_behind_an_open_one() -> tuple[LaneHistory, list[Case]]:
    """The first open record of the partition is of a transaction whose producer was heard of since."""
    made = lane()
    lively, hanging = (of(made) for of in WRITERS)
    made.begin(lively)
    made.begin(hanging)
    made.send(lively, partition=1)
    made.send(hanging, partition=1)
    hanging.touched = set()
    made.end(hanging, "info")
    made.clock += 36 * SECOND
    made.send(lively, partition=0)
    made.end(lively, "committed")
    return read(made), [_case("hanging_transaction", _records(made.history, 1, hanging.transaction - 1)[0])]


def dependency_cycle() -> tuple[LaneHistory, list[Case]]:
    """Each of two transactions has a record before one of the other."""
    made = lane()
    one, two = (of(made) for of in WRITERS)
    made.begin(one)
    made.begin(two)
    for writer, partition in ((one, 0), (two, 0), (two, 1), (one, 1)):
        made.send(writer, partition=partition)
    made.end(one, "committed")
    made.end(two, "committed")
    return read(made), [_case("dependency_cycle", _records(made.history, 0, one.transaction - 1)[0])]


def _two_open() -> tuple[Lane, Writer, Writer]:
    """A lane with a transaction of each writer that is open, and has one record, each in another partition."""
    made = lane()
    one, two = (of(made) for of in WRITERS)
    for writer in (one, two):
        made.begin(writer)
    for partition, writer in enumerate((one, two)):
        made.send(writer, partition=partition)
    return made, one, two


def _read_early(history: LaneHistory, of: Produced, poll_ns: int, within: Writer | None = None) -> None:
    """Let a reader of committed records read one, within the open transaction of a writer if that is given."""
    assert of.partition is not None
    assert of.offset is not None
    reader = "early" if within is None else f"reader-{within.producer_id}"
    reading = (None, None) if within is None else (within.producer_id, within.transaction)
    history.consumed.append(Read(reader, of.partition, of.offset, of.producer_id, of.seq, poll_ns, *reading))
    history.assignments.append(Assigned(reader, of.partition, "read_committed"))


def _committed(made: Lane) -> LaneHistory:
    """The lane, whose open transactions are committed, read to its end. It does not say when commits were asked for."""
    for of in WRITERS:
        made.end(of(made), "committed")
    made.history.transactions = [row._replace(commit_ns=None) for row in made.history.transactions]
    return read(made)


PLANTS: tuple[Callable[[], tuple[LaneHistory, list[Case]]], ...] = (
    clean, aborted_read, aborted_read_of_one_in_doubt, precommitted_read, precommitted_read_of_its_own,
    reads_in_a_cycle, torn_transaction, given_in_part, begins_late, lost_transaction, zombie_commit,
    written_by_a_zombie, commit_asked_for_late, commit_answered_late, hanging_transaction,
    hanging_behind_a_stale_marker, hanging_behind_an_open_one, dependency_cycle,
)  # fmt: skip


def _who(row: Produced | Read | Stored) -> tuple[int, int]:
    return row.producer_id, row.seq


def _records(history: LaneHistory, producer_id: int, transaction: int) -> list[Produced]:
    return [row for row in history.produced if (row.producer_id, row.transaction) == (producer_id, transaction)]


def _case(anomaly: str, row: Produced) -> Case:
    return Case(anomaly, row.partition, row.offset, row.producer_id, row.seq)


def _abort(history: LaneHistory, records: list[Produced]) -> None:
    """Turn the markers after these records into aborts, for the brokers and for who read committed records."""
    for partition in {row.partition for row in records}:
        last = max(row.offset or 0 for row in records if row.partition == partition)
        history.replicas = [
            row._replace(kind="abort") if (row.partition, row.offset) == (partition, last + 1) else row
            for row in history.replicas
        ]
    _not_given(history, records)


def _not_given(history: LaneHistory, records: list[Produced]) -> None:
    """Who reads committed records was not given these."""
    gone = {_who(row) for row in records}
    history.consumed = [row for row in history.consumed if row.consumer != "committed" or _who(row) not in gone]
