"""Random little runs with a group and loops: mostly plausible, then damaged anywhere."""

from random import Random
from typing import Any

from kafka_chaos.contract.lane.groups import group_of, loop_group_of
from tests.verification.samples import planted_groups as planted


def random_groups(random: Random, *, steps: int) -> planted.Histories:
    """The clean run of the plants, with more that groups may do, and some that they may not."""
    run = planted.clean()
    groups = {
        group_of("in"): ("in", None),
        **{loop_group_of(out): (lane, out) for out, lane in planted.SOURCES.items()},
    }
    for number in range(steps // 10):
        group = random.choice(list(groups))
        lane, output = groups[group]
        partition, consumer = random.randrange(planted.PARTITIONS), f"{group}-r{number}"
        generation = random.choice([None, 1, 2, 3]) if random.random() < 0.1 else random.choice([2, 3])
        planted.assign(run, lane, group, consumer, partition, generation or 3, f"{group}-m{random.randrange(3)}")
        if generation is None:
            row = run.lanes[lane].assignments[-1]
            run.lanes[lane].assignments[-1] = row._replace(generation=None)
        first = random.randrange(planted.RECORDS // planted.PARTITIONS)
        planted.process(run, lane, consumer, partition, range(first, first + random.randrange(1, 4)), output)
        if random.random() < 0.3:
            twin = f"{consumer}-twin"
            planted.assign(run, lane, group, twin, partition, generation or 3, f"{group}-m{random.randrange(3)}")
            planted.process(run, lane, twin, partition, [first])
            planted.process(run, lane, random.choice([consumer, twin]), partition, [first + 1])
        if random.random() < 0.3:
            _forget(random, run, lane, group)
        if random.random() < 0.7:
            planted.commit(
                run, lane, group, consumer, partition, random.randrange(8), random.choice(["ok", "ok", "fail", "info"])
            )
        if output == "once":
            planted.end(run, random.choice(["committed", "committed", "aborted", "info"]))
        if random.random() < 0.3:
            planted.write_output(run, "out", (0, random.randrange(planted.RECORDS)))
        if random.random() < 0.3:
            run.final[group][partition] = random.randrange(8)
    for _ in range(random.choice([0, 2, 5, 10])):
        _damage(random, run)
    return run


def _forget(random: Random, run: planted.Histories, lane: str, group: str) -> None:
    """No member of the group was given what is at some offset."""
    history = run.lanes[lane]
    members = {row.consumer for row in history.assignments if row.group == group}
    place = (random.randrange(planted.PARTITIONS), random.randrange(planted.RECORDS // planted.PARTITIONS))
    history.consumed = [
        row for row in history.consumed if row.consumer not in members or (row.partition, row.offset) != place
    ]


def _damage(random: Random, run: planted.Histories) -> None:
    history = run.lanes[random.choice(list(run.lanes))]
    tables: list[Any] = [history.consumed, history.log, history.assignments, history.commits, history.produced]
    rows = random.choice([table for table in tables if table])
    index = random.randrange(len(rows))
    row, other = rows[index], random.choice(rows)
    if rows is history.commits:
        changes = [{"offset": other.offset}, {"outcome": random.choice(["ok", "fail", "info"])}, {"complete_ns": None}]
        rows[index] = row._replace(**random.choice(changes))
    elif rows is history.assignments:
        generation = row.generation if row.generation is None else random.choice([1, 2])
        rows[index] = row._replace(**random.choice([{"member": other.member}, {"generation": generation}]))
    elif rows is history.produced:
        rows[index] = row._replace(source_producer_id=other.source_producer_id, source_seq=other.source_seq)
    elif random.random() < 0.5:
        del rows[index]
    else:
        rows[index] = row._replace(producer_id=other.producer_id, seq=other.seq)
