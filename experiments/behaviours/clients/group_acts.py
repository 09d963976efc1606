"""The acts of scenarios with a consumer group, for any protocol and any kind of cluster."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.clients import Clients
from kafka_chaos.conformance.scenario.groups.stage import GroupStage, group_on
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.contract.groups import AFTER, Group
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.lockstep.observation.groups import GIVEN, Deed

RECORDS = 3
_SELDOM_MS = 20_000


def killed_before_the_commit(stage: Stage, of: Group) -> None:
    """A record is processed, its member dies, and another one processes it again."""
    _produce(stage)
    with group_on(stage, of, records=RECORDS) as group:
        first, second = _two_members(group)
        group.poll(first)
        group.process(first)
        group.crash(first)
        stage.expect("Committed is what was processed before", group.seen.committed, (1,))
        _await_successor(group, first, second)
        _one_batch(group, second)
        _one_batch(group, second)
        stage.expect("Record 1 is given to both", [1 in given for given in group.did("given").values()], [True, True])
        stage.expect("Record 1 is processed twice, no record never", group.processed(), [0, 1, 1, 2])
        stage.expect("All is committed", group.seen.committed, (RECORDS,))
        stage.expect("Nothing of it is an anomaly of a group", group.model.anomalies(), [])


def killed_after_the_commit(stage: Stage, of: Group) -> None:
    """A record is committed, its member dies, and nobody processes it."""
    _produce(stage)
    with group_on(stage, of, records=RECORDS) as group:
        first, second = _two_members(group)
        group.poll(first)
        group.commit(first)
        group.crash(first)
        stage.expect("Record 1 is committed", group.seen.committed, (2,))
        _await_successor(group, first, second)
        _one_batch(group, second)
        stage.expect("Record 1 is given to the first only", group.did("given")[second], [2])
        stage.expect("Record 1 is never processed, no record twice", group.processed(), [0, 2])
        stage.expect("All is committed", group.seen.committed, (RECORDS,))
        stage.expect("The model permits that", group.model.anomalies(), ["skipped_after_rebalance"])


def frozen_before_the_commit(stage: Stage, of: Group) -> None:
    """A record is processed, its member freezes past its session, and can't commit when it continues."""
    _produce(stage)
    with group_on(stage, of, records=RECORDS) as group:
        first, second = _two_members(group)
        group.poll(first)
        group.process(first)
        group.freeze(first)
        _await_successor(group, first, second)
        _one_batch(group, second)
        _one_batch(group, second)
        stage.expect("The group is past it", group.seen.committed, (RECORDS,))
        group.thaw(first)
        group.commit(first)
        stage.fact("the answer to the commit", group.members.errors(first)[-1])
        stage.expect("The commit of offset 2 is refused", group.did("refused")[first], [2])
        stage.expect("The committed offset has not gone back", group.seen.committed, (RECORDS,))
        stage.expect("The member has joined again", group.seen.members, (1, 2))
        stage.expect("Record 1 is processed twice, no record never", group.processed(), [0, 1, 1, 2])
        stage.expect("Nothing of it is an anomaly of a group", group.model.anomalies(), [])


def coordinator_killed(stage: Stage, of: Group) -> None:
    """A record is processed, the coordinator dies, and the record is committed at the next one."""
    _produce(stage)
    with group_on(stage, of, records=RECORDS) as group:
        first, second = _two_members(group)
        group.poll(first)
        group.process(first)
        dead = group.members.coordinator()
        stage.expect("The coordinator does not lead the group's topic", dead != stage.seen.leader)
        before = group.seen
        stage.kill(dead)
        stage.expect("Another broker is the coordinator", group.members.coordinator() != dead)
        stage.expect("It knows who is in the group", group.seen.members, before.members)
        stage.expect("It knows who has the partition", group.seen.owners, before.owners)
        stage.expect("It knows what is committed", group.seen.committed, before.committed)
        generations = {one.each[second].generation for one in (before, group.seen)}
        stage.expect("Nobody had to join again", len(generations), 1)
        group.commit(first)
        stage.expect("It takes the commit", group.seen.committed, (2,))
        group.leave(first)
        stage.expect("The other member has the partition", group.seen.owners, (second,))
        _one_batch(group, second)
        stage.expect("Each record is processed once", group.processed(), [0, 1, 2])
        stage.start(dead)
        stage.expect("All is committed", group.seen.committed, (RECORDS,))


def back_in_time(stage: Stage, of: Group) -> None:
    """A static member dies after it has processed a record, and comes back within its session time-out."""
    _produce(stage)
    with group_on(stage, of, records=RECORDS) as group:
        first, second = _two_members(group)
        group.poll(first)
        group.process(first)
        before = group.seen.each[second].generation
        group.crash(first)
        group.come_back(first)
        stage.expect("It has the partition again", group.seen.owners, (first,))
        generations = [group.seen.each[member].generation for member in (first, second)]
        stage.expect("The generation is the same", generations, [before, before])
        _one_batch(group, first)
        stage.expect("It is given record 1 again", group.did("given"), {first: [0, 1, 1], second: []})
        stage.expect("Committed is what was processed", group.seen.committed, (2,))


def taken_over(stage: Stage, of: Group) -> None:
    """A static member goes on after another one was started with its `group.instance.id`.

    Its next heartbeat would tell it, too. It has its answer before that.
    """
    _produce(stage)
    with group_on(stage, of, records=RECORDS, heartbeat_ms=_SELDOM_MS) as group:
        _one_batch(group, 1)
        before = group.seen
        group.poll(1)
        group.process(1)
        group.take_over(2, former=1)
        stage.expect("Member 2 is in the group in its place", group.seen.members, (2,))
        stage.expect("It has the partition", group.seen.owners, (2,))
        generations = [one.generation for one in (before.each[1], group.seen.each[2])]
        stage.expect("The generation is the same", generations, [1, 1])
        group.commit(1)
        stage.expect("The answer", group.members.errors(1)[-1], "FENCED_INSTANCE_ID")
        stage.expect("The commit of offset 2 is refused", group.did("refused")[1], [2])
        stage.expect("Committed is what was before", group.seen.committed, before.committed)
        _one_batch(group, 2)
        _one_batch(group, 2)
        stage.expect("Record 1 is processed twice, no record never", group.processed(), [0, 1, 1, 2])
        stage.expect("All is committed", group.seen.committed, (RECORDS,))
        stage.expect("Nothing of it is an anomaly of a group", group.model.anomalies(), [])


def rebalanced(stage: Stage, of: Group, again: set[int] | None) -> None:
    """A member joins while the other one has records of two partitions that it has not committed.

    `again`: the partitions whose records are given a second time; None: those that move.
    """
    _produce(stage)
    _produce_to_second(stage)
    with group_on(stage, of, records=RECORDS, partitions=2) as group:
        for partition in (0, 1):
            group.poll(1, partition)
            group.process(1, partition)
            group.commit(1, partition)
            group.poll(1, partition)
            group.process(1, partition)
        stage.expect("Of two records each, one is committed", group.seen.committed, (1, 1))
        group.join(2)
        owners = group.seen.owners or ()
        stage.expect("Each member has a partition", sorted(owners), [1, 2])
        moved = {partition for partition, owner in enumerate(owners) if owner == 2}
        for partition, owner in enumerate(owners):
            group.poll(owner, partition)
            group.process(owner, partition)
            group.commit(owner, partition)
        twice = {deed[1:] for deed in _twice(group)}
        expected = moved if again is None else again
        stage.expect(
            "Given twice, by partition and offset", sorted(twice), sorted((partition, 1) for partition in expected)
        )
        after = tuple(2 if partition in expected else 3 for partition in (0, 1))
        stage.expect("Committed is what was given last", group.seen.committed, after)
        stage.fact("the partition that moved", *moved)
        stage.fact("generations after the first", (group.seen.each[1].generation or 0) - 1)
        stage.expect("Nothing of it is an anomaly of a group", group.model.anomalies(), [])


def _twice(group: GroupStage) -> list[Deed]:
    """The records that were given to members more than once."""
    given = [deed for member in group.seen.each.values() for deed in member.did if deed[0] == GIVEN]
    return [deed for deed in set(given) if given.count(deed) > 1]


def _produce_to_second(stage: Stage) -> None:
    """As many records to partition 1, of which the model's cluster knows nothing."""
    with Clients(stage.lease.cluster.bootstrap_servers, stage.topic) as other:

        def send() -> None:
            for number in range(RECORDS):
                other.send(f"s{number}", partition=1)
            wait_until(lambda: len(other.acknowledged()) == RECORDS, "partition 1 to have its records", timeout=30)

        stage.take(f"A producer sends {RECORDS} records to partition 1.", send)


def _produce(stage: Stage) -> None:
    for number in range(RECORDS):
        stage.produce(f"r{number}")


def _two_members(group: GroupStage) -> tuple[int, int]:
    """Member 1 reads a record, and member 2 joins; which one has the partition then, and the other one."""
    _one_batch(group, 1)
    group.join(2)
    (first,) = group.seen.owners or (0,)
    group.stage.expect("One of them has the partition", first in (1, 2))
    return first, 3 - first


def _one_batch(group: GroupStage, member: int) -> None:
    """A whole batch of one record."""
    group.poll(member)
    if group.members.group.commits == AFTER:
        group.process(member)
        group.commit(member)
    else:
        group.commit(member)
        group.process(member)


def _await_successor(group: GroupStage, first: int, second: int) -> None:
    group.await_removed(first)
    group.stage.expect(f"Member {second} has the partition", group.seen.owners, (second,))
