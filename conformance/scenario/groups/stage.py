"""The steps of a consumer group's members in scenarios, each the same on Kafka and in the model.

A group's members read the act's topic. The model has the rules of `reference_model/groups/`. After every step it must
agree with Kafka on the replicas, on the members with their generations and partitions, on the committed offsets, and on
what each member was given, processed and committed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from signal import SIGCONT, SIGKILL, SIGSTOP

from kafka_chaos.conformance.scenario.groups.members import HEARTBEAT_MS, Members
from kafka_chaos.conformance.scenario.steps.stage import Stage
from kafka_chaos.contract.lane.groups import AFTER, Group
from kafka_chaos.reference_model.groups.rules import rules_of_group
from kafka_chaos.reference_model.groups.state import Setup
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterWithGroupModel
from kafka_chaos.reference_model.lockstep.groups import GroupModel, first_state
from kafka_chaos.reference_model.lockstep.observation import GIVEN, PROCESSED, GroupObservation
from kafka_chaos.reference_model.lockstep.stepping import step

_UNLIMITED = 9  # No scenario has as many crashes, removals, joins or leaves.


@dataclass(kw_only=True)
class GroupStage(Stage):
    """The stage of a running act, with the steps of a group's members, too. Members are numbered from 1."""

    members: Members
    group_model: GroupModel

    def member_step(self, verb: str, member: int, partition: int = 0) -> None:
        """A member takes one of `MEMBER_STEPS`. `partition` is used only by `PARTITION_STEPS`."""
        template, action, on_kafka = MEMBER_STEPS[verb]
        polled = f" partition {partition}" if self.members.partitions > 1 else ""
        sentence = template.format(member=member, partition=polled)
        keys = {"partition": partition} if verb in PARTITION_STEPS else {}
        self.take(sentence, partial(on_kafka, self.members, member, **keys), step(action, member=member, **keys))

    def one_batch(self, member: int) -> None:
        """A member takes a whole batch of one record, and commits after or before it, as the group's `commits` say."""
        commits_after = self.members.group.commits == AFTER
        for verb in ("poll", "process", "commit") if commits_after else ("poll", "commit", "process"):
            self.member_step(verb, member)

    def take_over(self, member: int, former: int) -> None:
        """A member is started with the group.instance.id of the member `former`, which still runs."""
        sentence = f"Member {member} is started with the group.instance.id of member {former}."
        on_kafka = partial(self.members.join, member, replaces=former)
        self.take(sentence, on_kafka, step("member_takes_over", member=member, former=former))

    def await_removed(self, member: int) -> None:
        """A step that waits until the coordinator has removed a member that sends no heartbeats."""
        self.await_seen(
            f"The session of member {member} expires: the coordinator removes it.",
            lambda seen: seen.group is not None and member not in (seen.group.members or ()),
        )

    @property
    def group(self) -> GroupObservation:
        """The observation of the group after the last step."""
        assert self.observation.group is not None
        return self.observation.group

    def deed_offsets(self, kind: str) -> dict[int, list[int]]:
        """The offsets of each member's deeds of a kind, such as `GIVEN`, in order, by member."""
        return {
            number: [offset for deed, _, offset in member.did if deed == kind]
            for number, member in self.group.by_member.items()
        }

    def given_twice(self) -> list[tuple[int, int]]:
        """(partition, offset) of the records that were given to members more than once."""
        deeds = [deed for member in self.group.by_member.values() for deed in member.did]
        deliveries = [(partition, offset) for kind, partition, offset in deeds if kind == GIVEN]
        return sorted({delivery for delivery in deliveries if deliveries.count(delivery) > 1})

    def processed(self) -> list[int]:
        """The offsets of all processed records, sorted."""
        return sorted(offset for offsets in self.deed_offsets(PROCESSED).values() for offset in offsets)

    @property
    def coordinator(self) -> int:
        """The broker that is the group's coordinator now."""
        return self.members.coordinator()


PARTITION_STEPS = ("poll", "process", "commit")  # the steps of members that concern a partition
MEMBER_STEPS: Mapping[str, tuple[str, str, Callable[..., object]]] = {
    "join": ("Member {member} joins.", "member_joins", Members.join),
    "poll": ("Member {member} polls{partition}.", "member_polls", Members.poll),
    "process": ("Member {member} processes what it was given.", "member_processes", Members.process),
    "commit": ("Member {member} commits{partition}.", "member_commits", Members.commit),
    "crash": ("Member {member} is killed (SIGKILL).", "member_crashes", partial(Members.signal, kind=SIGKILL)),
    "come back": ("Member {member} is started again, with the same group.instance.id.", "member_comes_back",
                  Members.join),
    "freeze": ("Member {member} is frozen (SIGSTOP).", "member_freezes", partial(Members.signal, kind=SIGSTOP)),
    "thaw": ("Member {member} continues (SIGCONT).", "member_thaws", partial(Members.signal, kind=SIGCONT)),
    "leave": ("Member {member} leaves.", "member_leaves", Members.leave),
}  # fmt: skip
"""By name of a member's step: its sentence in the story, the model's action, and the function that does it on Kafka.

A join ends when each member has its partitions. A commit is repeated until it has an answer; it commits the offset
after the record that the member was given last."""


@contextmanager
def group_on(
    stage: Stage, group: Group, *, records: int, partitions: int = 1, heartbeat_ms: int = HEARTBEAT_MS
) -> Iterator[GroupStage]:
    """The stage while a group reads the act's topic; `records`: the number of records in each of its partitions.

    In the first step, member 1 joins and gets all partitions. Members commit when a step says so; with commits=auto,
    that step may come at any time, also before a record is processed.
    """
    setup = Setup(
        rules_of_group(group, stage.lease.profile.kafka_version),
        group.commits,
        is_static=group.static,
        slots=group.members,
        records=records,
        crashes=_UNLIMITED,
        removals=_UNLIMITED,
        joins=_UNLIMITED,
        leaves=_UNLIMITED,
    )
    model = GroupModel(setup, frozenset([first_state(setup, partitions)]))
    servers = stage.lease.cluster.bootstrap_servers
    with Members(servers, stage.topic, partitions, group, heartbeat_ms) as members:
        stage.model = ClusterWithGroupModel(stage.model, model, "group")
        stage.observer.observe_group = lambda: {"group": members.observe()}
        members.join(1)
        stage.settle("Member 1 joins a new group.")
        yield GroupStage(**stage.own_fields, members=members, group_model=model)
