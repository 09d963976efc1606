"""Consumer groups: what is processed twice, or never, when a member or the coordinator fails."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.clusters import STEADY, ClusterLease, ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.contract.groups import AFTER, AUTO, BEFORE, CONSUMER, COOPERATIVE, RANGE, Group
from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.experiments.behaviours.clients.group_acts import (
    back_in_time,
    coordinator_killed,
    frozen_before_the_commit,
    killed_after_the_commit,
    killed_before_the_commit,
    rebalanced,
    taken_over,
)
from kafka_chaos.harness.cluster.broker.answers import CoordinatorKind
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.waiting import wait_until

NEXT = ClusterProfile(name="Kafka 4.3.1 in KRaft mode", metadata_mode=KRAFT, kafka_version="4.3.1")


@scenario("commit-after-processing", title="At least once: a crash before the commit, and a record is processed twice")
def commit_after_processing(play: Play) -> None:
    """A member processes a record, then commits. It is killed between the two. Its session expires, the coordinator
    gives the partition to the other member, and that one begins at the committed offset: the record is processed again.
    Nothing is skipped.
    """
    with play.act("killed before the commit") as stage:
        killed_before_the_commit(stage, Group(members=2, commits=AFTER))


@scenario("commit-before-processing", title="At most once: a crash after the commit, and a record is never processed")
def commit_before_processing(play: Play) -> None:
    """A member commits a record, then processes it. It is killed between the two. Its session expires, the coordinator
    gives the partition to the other member, and that one begins at the committed offset, past the record that nobody
    has processed. Nothing is processed twice.
    """
    with play.act("killed after the commit") as stage:
        killed_after_the_commit(stage, Group(members=2, commits=BEFORE))


@scenario("group-zombie-member", title="A member thaws after its session: what it commits is refused")
def group_zombie_member(play: Play) -> None:
    """A member that has processed a record is frozen before it commits. Its session expires, and the partition goes to
    the other member, which processes that record again, goes on and commits. The first member continues. It does not
    know that it was removed and commits what it has done, an offset that the group is past. The coordinator refuses, so
    that the committed offset does not go back. The member joins again.
    """
    with play.act("frozen before the commit") as stage:
        frozen_before_the_commit(stage, Group(members=2, commits=AFTER))


@scenario(
    "group-coordinator-failover", title="The next coordinator has the commits and the members, and the group goes on"
)
def group_coordinator_failover(play: Play) -> None:
    """The broker that coordinates a group is killed while a member processes a record. The next leader of the group's
    partition of `__consumer_offsets` reads the group from it. The members find it, in the same generation and with the
    same partitions. The member commits there. It leaves, and the other one begins where it has committed.
    """
    of = Group(members=2, commits=AFTER, session_timeout_ms=60_000, max_poll_interval_ms=60_000)
    _kill_the_coordinator(play, STEADY, of)


@scenario(
    "group-rebalance-eager-vs-cooperative", title="What a rebalance takes from a member, the next owner reads again"
)
def group_rebalance(play: Play) -> None:
    """A member reads two partitions, and has processed a record of each that it has not committed. Another member
    joins. With an eager assignor the first member gives back both partitions and gets one of them again. It has lost
    its position there: it is given the same record a second time, like the member that has the other partition now.
    With a cooperative assignor it gives back only the partition that moves, one generation later. In the one that it
    keeps it goes on with the next record. In both, what was committed is given to nobody again.
    """
    for name, assignor, again in (("eager", RANGE, {0, 1}), ("cooperative", COOPERATIVE, None)):
        with play.act(f"{name}: {assignor}", partitions=2) as stage:
            rebalanced(stage, Group(members=2, assignor=assignor, commits=AUTO), again)


@scenario("group-static-member", title="A static member that comes back in time: no rebalance, and its records again")
def group_static_member(play: Play) -> None:
    """Members have a `group.instance.id` each. One is killed after it has processed a record, before the commit, and is
    started again within its session time-out. It gets its partition back in the same generation, and the other member
    notices nothing. What it had not committed it is given again. A member that is started with the `group.instance.id`
    of one that goes on gets its partition in the same way. The commit of the former one is then refused, with
    FENCED_INSTANCE_ID.
    """
    of = Group(members=2, commits=AFTER, static=True, session_timeout_ms=60_000, max_poll_interval_ms=60_000)
    with play.act("killed, and back in time") as stage:
        back_in_time(stage, of)
    with play.act("its group.instance.id is taken over") as stage:
        taken_over(stage, of)


@scenario(
    "group-consumer-protocol", title="The protocol consumer: dead members, a zombie and a dead coordinator as before"
)
def group_consumer_protocol(play: Play) -> None:
    """With `group.protocol=consumer` members have no generation in common. Each follows the coordinator, which assigns,
    in an epoch of its own. What a group promises stays: what is committed after processing is processed at least once,
    what is committed before at most once. A member that was removed can't commit. The next coordinator has the commits
    and the members.
    """
    after, before = (Group(members=2, protocol=CONSUMER, assignor=None, commits=commits) for commits in (AFTER, BEFORE))
    with play.act("killed before the commit", profile=NEXT) as stage:
        killed_before_the_commit(stage, after)
    with play.act("killed after the commit", profile=NEXT) as stage:
        killed_after_the_commit(stage, before)
    with play.act("frozen before the commit", profile=NEXT) as stage:
        frozen_before_the_commit(stage, after)
    _kill_the_coordinator(play, NEXT, after)


def _kill_the_coordinator(play: Play, profile: ClusterProfile, of: Group) -> None:
    """The act in which leader, coordinator and, with ZooKeeper, controller are three brokers."""
    with play.cluster(profile) as lease:
        coordinator = _coordinator(lease)
    leader, other = (broker for broker in (1, 2, 3) if broker != coordinator)
    replicas = (leader, other, coordinator)
    with play.act("the coordinator is killed", profile=profile, replicas=replicas, controller=other) as stage:
        coordinator_killed(stage, of)


def _coordinator(lease: ClusterLease) -> int:
    """The broker that coordinates every group: `__consumer_offsets` has one partition."""

    def named() -> int | None:
        with BrokerClient(lease.cluster.client_address(1)) as client:
            return client.coordinator("any", CoordinatorKind.GROUP)

    return wait_until(named, "a broker to coordinate groups", timeout=30)
