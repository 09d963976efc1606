"""Clean lanes with a group and with loops, and each anomaly planted in them.

The lanes `in` and `exact` are read by loops, whose outputs are `out` and `once`; `in` has a group of its own, too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kafka_chaos.contract.lane.groups import group_of, loop_group_of
from tests.verification.oracle import rows as oracle
from tests.verification.samples.run_dirs import as_planned, write_histories

PARTITIONS, RECORDS, BATCH = 2, 12, 3
SOURCES = {"out": "in", "once": "exact"}


@dataclass
class Histories:
    """A run: lanes, what each group had committed in the end, and the clock. `keys`: further ones of lanes.json by
    lane; `is_planned`: kafka-chaos made the run."""

    lanes: dict[str, oracle.LaneHistory] = field(default_factory=dict)
    final: dict[str, dict[int, int]] = field(default_factory=dict)
    clock: int = 1_000
    keys: dict[str, dict[str, object]] = field(default_factory=dict)
    is_planned: bool = False

    def tick(self) -> int:
        self.clock += 10
        return self.clock

    def write(self, folder: Path) -> Path:
        """Write the run directory."""
        run = write_histories(folder, self.lanes, self.clients, self.committed)
        return as_planned(run, self.clock) if self.is_planned else run

    @property
    def clients(self) -> dict[str, dict[str, object]]:
        """The keys of lanes.json that say which groups there are."""
        found: dict[str, dict[str, object]] = {"in": {"group": {"members": 2}}, "exact": {}}
        for lane, source in SOURCES.items():
            offsets = "transaction" if lane == "once" else "after"
            found[lane] = {"loop": {"source": source, "offsets": offsets, "group": {"members": 1}}}
        return {lane: {**keys, **self.keys.get(lane, {})} for lane, keys in found.items()}

    @property
    def committed(self) -> dict[str, dict[str, int]]:
        """The content of groups.json."""
        reads = {loop_group_of(lane): source for lane, source in SOURCES.items()}
        return {
            group: {f"{reads.get(group, 'in')}/{partition}": offset for partition, offset in final.items()}
            for group, final in self.final.items()
        }

    def commits(self, group: str) -> list[oracle.Commit]:
        return [row for of in self.lanes.values() for row in of.commits if row.group == group]


def store(run: Histories, lane: str, partition: int, producer_id: int, seq: int) -> int:
    """Append a record; returns its offset."""
    history = run.lanes[lane]
    assert history.log is not None
    held = [row.offset for row in history.log if row.partition == partition]
    markers = [row.offset for row in history.replicas if row.partition == partition]
    offset = max([*held, *markers], default=-1) + 1
    history.log.append(oracle.Stored(partition, offset, producer_id, seq))
    replicate(run, lane, partition, offset, producer_id, seq, "data")
    return offset


def replicate(run: Histories, lane: str, partition: int, offset: int, producer_id: int, seq: int, kind: str) -> None:
    for broker in range(3):
        run.lanes[lane].replicas.append(oracle.Replicated(partition, broker, offset, 0, producer_id, seq, kind))


def load(run: Histories, lane: str) -> None:
    """A producer writes in turn to all partitions."""
    run.lanes[lane] = oracle.LaneHistory(log=[])
    for seq in range(RECORDS):
        begin = run.tick()
        offset = store(run, lane, seq % PARTITIONS, 0, seq)
        run.lanes[lane].produced.append(
            oracle.Produced(0, seq, seq % PARTITIONS, offset, "ok", None, begin, run.tick())
        )


def follow(run: Histories, lane: str, isolation: str | None = None) -> None:
    """A consumer of no group reads everything."""
    history = run.lanes[lane]
    name = f"follower-{isolation}"
    if isolation is not None:
        history.assignments += [oracle.Assigned(name, partition, isolation) for partition in range(PARTITIONS)]
    history.consumed += [oracle.Read(name, *row, poll_ns=run.tick()) for row in history.log or ()]


def assign(run: Histories, lane: str, group: str, consumer: str, partition: int, generation: int, member: str) -> None:
    run.lanes[lane].assignments.append(
        oracle.Assigned(consumer, partition, "read_committed", group, member, generation, run.tick())
    )


def process(
    run: Histories, lane: str, consumer: str, partition: int, offsets: Iterable[int], output: str | None = None
) -> list[oracle.Stored]:
    """A member processes the records at these offsets; of a loop, it writes an output of each."""
    rows = [row for row in run.lanes[lane].log or () if row.partition == partition and row.offset in offsets]
    for row in rows:
        run.lanes[lane].consumed.append(oracle.Read(consumer, *row, poll_ns=run.tick()))
        if output is not None:
            write_output(run, output, (row.producer_id, row.seq))
    return rows


def write_output(
    run: Histories, lane: str, source: tuple[int, int], *, transaction: int | None = None
) -> oracle.Produced:
    history = run.lanes[lane]
    seq = len(history.produced)
    begin = run.tick()
    offset = store(run, lane, seq % PARTITIONS, 7, seq)
    if lane == "once" and transaction is None:
        transaction = len(history.transactions)
    row = oracle.Produced(7, seq, seq % PARTITIONS, offset, "ok", transaction, begin, run.tick(), *source)
    history.produced.append(row)
    return row


def end(run: Histories, outcome: str) -> None:
    """The transaction of the loop's producer ends."""
    history = run.lanes["once"]
    for partition in range(PARTITIONS):
        assert history.log is not None
        held = [row.offset for row in (*history.log, *history.replicas) if row.partition == partition]
        kind = "commit" if outcome == "committed" else "abort"
        replicate(run, "once", partition, max(held, default=-1) + 1, 7, -1, kind)
    number = len(history.transactions)
    sent = [row.invoke_ns for row in history.produced if row.transaction == number]
    sent += [row.invoke_ns for row in run.commits(loop_group_of("once")) if row.transaction == number]
    begin = min(sent, default=run.clock) - 1
    history.transactions.append(oracle.Transaction(7, number, "once-0", begin, run.tick(), outcome))


def commit(
    run: Histories, lane: str, group: str, consumer: str, partition: int, offset: int, outcome: str = "ok"
) -> None:
    begin = run.tick()
    done = None if outcome == "info" else run.tick()
    number = len(run.lanes["once"].transactions) if group == loop_group_of("once") else None
    producer_id = None if number is None else 7
    run.lanes[lane].commits.append(
        oracle.Commit(group, consumer, partition, offset, begin, done, outcome, producer_id, number)
    )


def work(run: Histories, group: str, lane: str, output: str | None = None) -> None:
    """One member per partition processes it batch by batch and commits; in the middle, both change places."""
    ends = RECORDS // PARTITIONS
    for half, generation in ((0, 1), (ends // 2, 2)):
        for partition in range(PARTITIONS):
            consumer, kind = f"{group}-{generation}-{partition}", group.rpartition("-")[2]
            member = f"{kind}-m{(partition + generation) % PARTITIONS}"
            assign(run, lane, group, consumer, partition, generation, member)
            for first in range(half, half + ends // 2, BATCH):
                process(run, lane, consumer, partition, range(first, first + BATCH), output)
                commit(run, lane, group, consumer, partition, first + BATCH)
                if output == "once":
                    end(run, "committed")
    run.final[group] = dict.fromkeys(range(PARTITIONS), ends)


def clean() -> Histories:
    """No anomaly."""
    run = Histories()
    for lane in ("in", "exact"):
        load(run, lane)
    for lane, timeout in (("out", None), ("once", 60_000)):
        run.lanes[lane] = oracle.LaneHistory(log=[], timeout_ms=timeout)
    work(run, group_of("in"), "in")
    for output, source in SOURCES.items():
        work(run, loop_group_of(output), source, output)
    for lane in ("in", "exact", "out"):
        follow(run, lane)
    for isolation in ("read_committed", "read_uncommitted"):
        follow(run, "once", isolation)
    return run


Plant = tuple[Histories, dict[str, list[oracle.Case]]]


def calm() -> Plant:
    """A member that was given nothing yet commits where it stands."""
    run = clean()
    rows, begun = run.lanes["in"].commits, run.lanes["in"].assignments[0].start_ns
    rows.append(rows[0]._replace(offset=0, invoke_ns=begun + 1, complete_ns=begun + 2))
    return run, {}


def a_member_that_processes_again() -> Plant:
    """A record that a plain group processes twice is no anomaly."""
    run = clean()
    assign(run, "in", group_of("in"), "again", 0, 3, "m9")
    process(run, "in", "again", 0, range(2, 6))
    # It was asked for before the last commits were acknowledged.
    rows = run.lanes["in"].assignments
    rows[-1] = rows[-1]._replace(start_ns=1)
    return run, {}


def processed_twice() -> Plant:
    """The output of an input is written once more."""
    run = clean()
    write_output(run, "out", (0, 5))
    run.lanes["out"].consumed = []
    follow(run, "out")
    return run, {"out": [oracle.Case("processed_twice", None, None, 0, 5)]}


def processed_twice_where_a_copy_is_gone() -> Plant:
    """An input that the loop was given at two offsets, of which compaction keeps the later one."""
    run, group = clean(), loop_group_of("out")
    run.keys["in"] = {"cleanup_policy": "compact", "idempotence": True, "group": {"members": 2}}
    source = run.lanes["in"]
    assert source.log is not None
    gone = next(row for row in source.log if row.seq == RECORDS - 1)
    process(run, "in", f"{group}-2-1", 1, [store(run, "in", 1, 0, RECORDS - 1)], "out")
    for lane in ("in", "out"):
        stored = (run.lanes[lane].log or [])[-1]
        run.lanes[lane].consumed.append(oracle.Read("follower-None", *stored, poll_ns=run.tick()))
    source.log.remove(gone)
    source.replicas = [row for row in source.replicas if (row.partition, row.offset) != gone[:2]]
    return run, {"in": [oracle.Case("duplicate", 1, gone.offset + 1, 0, RECORDS - 1)]}


def processed_twice_in_an_aborted_transaction() -> Plant:
    """An output that is aborted is none."""
    run = clean()
    write_output(run, "once", (0, 5))
    end(run, "aborted")
    history = run.lanes["once"]
    history.consumed, history.assignments = [], []
    for isolation in ("read_committed", "read_uncommitted"):
        follow(run, "once", isolation)
    aborted = ("follower-read_committed", history.produced[-1].seq)
    history.consumed = [row for row in history.consumed if (row.consumer, row.seq) != aborted]
    return run, {}


def not_processed() -> Plant:
    """The output of an input is another input's."""
    run = clean()
    rows = run.lanes["out"].produced
    at = next(index for index, row in enumerate(rows) if row.source_seq == 4)
    rows[at] = rows[at]._replace(source_seq=5)
    return run, {
        "out": [oracle.Case("processed_twice", None, None, 0, 5), oracle.Case("not_processed", None, None, 0, 4)]
    }


def commit_lost() -> Plant:
    """In the end, less is committed than was acknowledged; a commit of another offset in doubt explains nothing."""
    run = clean()
    commit(run, "in", group_of("in"), f"{group_of('in')}-2-1", 1, 2, "info")
    run.final[group_of("in")][1] = 3
    return run, {"in": [oracle.Case("commit_lost", 1, 6, None, None)]}


def began_behind(in_doubt: int = 1, generation: int = 2) -> Plant:
    """A member begins behind a commit that was acknowledged before; one of another offset in doubt explains nothing."""
    run = clean()
    commit(run, "in", group_of("in"), f"{group_of('in')}-{generation}-0", 0, in_doubt, "info")
    assign(run, "in", group_of("in"), "behind", 0, 3, "m9")
    process(run, "in", "behind", 0, range(2, 6))
    return run, {"in": [oracle.Case("commit_lost", 0, 6, None, None)]}


def began_behind_what_may_have_come_late() -> Plant:
    """A commit in doubt may have taken effect last."""
    return began_behind(in_doubt=2)[0], {}


def began_behind_what_was_refused() -> Plant:
    """A commit in doubt, by a member of an older generation, explains nothing."""
    return began_behind(in_doubt=2, generation=1)


def went_on_from_what_may_have_come_late() -> Plant:
    """A member that begins where a commit in doubt was goes on through a rebalance, in which it keeps the partition."""
    run, _ = began_behind_what_may_have_come_late()
    run.lanes["in"].consumed = [row for row in run.lanes["in"].consumed if row.consumer != "behind" or row.offset < 4]
    assign(run, "in", group_of("in"), "behind-again", 0, 4, "m9")
    process(run, "in", "behind-again", 0, [4])
    commit(run, "in", group_of("in"), "behind-again", 0, 5)
    return run, {}


def an_expelled_member_sets_itself_back() -> Plant:
    """A member that was removed reads again what it could not commit, before it learns that it was."""
    run = clean()
    assign(run, "in", group_of("in"), "expelled", 0, 1, "m9")
    process(run, "in", "expelled", 0, range(2, 6))
    return run, {}


def commit_regressed() -> Plant:
    """A commit goes back, and so does the last committed offset."""
    run = clean()
    commit(run, "in", group_of("in"), f"{group_of('in')}-1-0", 0, 3)
    run.final[group_of("in")][0] = 3
    return run, {"in": [oracle.Case("commit_regressed", 0, 3, None, None)]}


def refused_commit() -> Plant:
    """A commit that is refused does not count."""
    run = clean()
    commit(run, "in", group_of("in"), f"{group_of('in')}-1-0", 0, 3, "fail")
    return run, {}


def skipped_after_rebalance() -> Plant:
    """No member processes a record, and the group commits past it."""
    run = clean()
    group = group_of("in")
    skipped = next(row for row in run.lanes["in"].log or () if (row.partition, row.offset) == (1, 3))
    run.lanes["in"].consumed = [
        row
        for row in run.lanes["in"].consumed
        if not (row.consumer.startswith(group) and (row.partition, row.offset) == (1, 3))
    ]
    return run, {"in": [oracle.Case("skipped_after_rebalance", *skipped)]}


def began_past_what_it_had_committed() -> Plant:
    """The same of a group whose members begin at the end if they find no committed offset: it had one."""
    run, cases = skipped_after_rebalance()
    run.keys["in"] = {"group": {"members": 2, "reset": "latest"}}
    return run, {"in": [*cases["in"], oracle.Case("commit_lost", 1, 3, None, None)]}


def began_past_what_may_have_been_committed() -> Plant:
    """A commit in doubt may have led the next member there."""
    run, cases = began_past_what_it_had_committed()
    first = next(row for row in run.lanes["in"].commits if (row.group, row.partition) == (group_of("in"), 1))
    run.lanes["in"].commits.append(first._replace(offset=4, outcome="info", complete_ns=None))
    return run, {"in": cases["in"][:1]}


def began_late() -> Plant:
    """A group that begins at the first record of a new topic is given none before the third one of a partition."""
    run, _ = began_late_elsewhere()
    run.is_planned = True
    return run, {"in": [oracle.Case("skipped_after_rebalance", 0, offset, 0, 2 * offset) for offset in range(2)]}


def began_late_by_its_reset() -> Plant:
    """The same of a group that begins at the end."""
    run, _ = began_late()
    run.keys["in"] = {"group": {"members": 2, "reset": "latest"}}
    return run, {}


def began_late_elsewhere() -> Plant:
    """The same in another history: the group may have committed there before."""
    run = clean()
    members = {row.consumer for row in run.lanes["in"].assignments if row.group == group_of("in")}
    run.lanes["in"].consumed = [
        row for row in run.lanes["in"].consumed if row.consumer not in members or row.partition or row.offset > 1
    ]
    return run, {}


def committed_past_the_end() -> Plant:
    """A commit is acknowledged that lies past the end of the log, and brokers have it in the end."""
    run = clean()
    commit(run, "in", group_of("in"), f"{group_of('in')}-1-0", 0, 7)
    run.final[group_of("in")][0] = 7
    return run, {"in": [oracle.Case("skipped_after_rebalance", 0, 6, None, None)]}


def an_offset_that_was_used_again() -> Plant:
    """The group was given another record at the offset."""
    run = clean()
    group = group_of("in")
    history = run.lanes["in"]
    history.produced.append(oracle.Produced(0, 99, 1, None, "info", None, 1, 2))
    history.consumed = [
        row._replace(seq=99) if row.consumer.startswith(group) and (row.partition, row.offset) == (1, 3) else row
        for row in history.consumed
    ]
    return run, {"in": [oracle.Case("inconsistent_offset", 1, 3, 0, 99), oracle.Case("truncated_read", 1, 3, 0, 99)]}


def owned_twice() -> Plant:
    """Two members of one generation process a partition side by side."""
    run = clean()
    history, group = run.lanes["in"], group_of("in")
    first = next(row for row in history.assignments if row.consumer == f"{group}-2-0")
    reads = [row for row in history.consumed if row.consumer == first.consumer]
    # It was given the partition before the last commit was acknowledged.
    history.assignments.append(first._replace(consumer="twin", member="m9", start_ns=first.start_ns + 1))
    history.consumed += [row._replace(consumer="twin", poll_ns=row.poll_ns + 1) for row in reads]
    return run, {"in": [oracle.Case("owned_twice", 0, 3, None, None)]}


def owned_twice_in_two_epochs() -> Plant:
    """With KIP-848, a member commits a partition that another one has begun to read."""
    run, group = clean(), group_of("in")
    run.keys["in"] = {"kafka_version": "4.1.0", "group": {"members": 2, "protocol": "consumer"}}
    commit(run, "in", group, f"{group}-1-0", 0, 6)
    return run, {"in": [oracle.Case("owned_twice", 0, 3, None, None)]}


def committed_after_it_was_given_back() -> Plant:
    """The same of a partition that the member had given back before."""
    run, _ = owned_twice_in_two_epochs()
    rows = run.lanes["in"].assignments
    rows[:] = [row._replace(end_ns=run.clock - 20) if row.generation == 1 else row for row in rows]
    return run, {}


def committed_beside_a_member_of_an_earlier_epoch() -> Plant:
    """The same where the other one was expelled, so that its epoch is 0, and reads on."""
    run, _ = owned_twice_in_two_epochs()
    rows, zombie = run.lanes["in"].assignments, f"{group_of('in')}-2-0"
    rows[:] = [row._replace(generation=0) if row.consumer == zombie else row for row in rows]
    return run, {}


PLANTS: tuple[Callable[[], Plant], ...] = (
    calm, a_member_that_processes_again, processed_twice, processed_twice_where_a_copy_is_gone,
    processed_twice_in_an_aborted_transaction, not_processed, commit_lost, began_behind, commit_regressed,
    began_behind_what_may_have_come_late, went_on_from_what_may_have_come_late, an_expelled_member_sets_itself_back,
    refused_commit, committed_beside_a_member_of_an_earlier_epoch, began_behind_what_was_refused,
    skipped_after_rebalance, began_past_what_it_had_committed, began_past_what_may_have_been_committed, began_late,
    began_late_by_its_reset, began_late_elsewhere, committed_past_the_end,
    an_offset_that_was_used_again, owned_twice, owned_twice_in_two_epochs, committed_after_it_was_given_back,
)  # fmt: skip


def expected(plant: Plant, lane: str) -> list[oracle.Case]:
    return sorted(plant[1].get(lane, []), key=oracle.case_order)
