"""The steps of a share group's members in scenarios, on Kafka and in the model, which calls the members `sharers`.

The group reads the act's topic from its beginning. After every step the model must agree with Kafka on the replicas, on
the records and the answers that each member got, and on the start offset that the group's coordinator reports.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from kafka_chaos.conformance.scenario.clusters import ClusterLease
from kafka_chaos.conformance.scenario.shares.members import ShareMembers
from kafka_chaos.conformance.scenario.steps.stage import Stage
from kafka_chaos.contract.lane.lanes import SHARE_STATE
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterWithGroupModel
from kafka_chaos.reference_model.lockstep.observation import GIVEN, ShareObservation
from kafka_chaos.reference_model.lockstep.shares import ShareModel, ShareSetup
from kafka_chaos.reference_model.lockstep.stepping import step

_MEMBERS = 2


@dataclass(kw_only=True)
class ShareStage(Stage):
    """The stage of a running act, with the further steps of a share group's members, who are numbered from 1."""

    members: ShareMembers

    def poll(self, member: int) -> None:
        """A member asks for a record again and again until it is given one."""
        on_kafka = partial(self.members.poll, member)
        self.take(f"Member {member} asks for a record.", on_kafka, step("sharer_polls", member=member))

    def acknowledge(self, member: int, kind: str, offset: int) -> None:
        """A member accepts, releases or rejects a record, and repeats this until the leader's answer is final."""
        on_kafka = partial(self.members.acknowledge, member, kind, offset)
        action = step("sharer_acknowledges", member=member, kind=kind, offset=offset)
        self.take(f"Member {member} {kind}s offset {offset}.", on_kafka, action)

    def acknowledge_unheard(self, member: int, kind: str, offset: int) -> None:
        """A member accepts, releases or rejects a record, and hears no answer."""
        on_kafka = partial(self.members.acknowledge_unheard, member, kind, offset)
        action = step("sharer_acknowledges_unheard", member=member, kind=kind, offset=offset)
        self.take(f"Member {member} {kind}s offset {offset}, and hears no answer.", on_kafka, action)

    def die(self, member: int) -> None:
        """The process of a member dies: its connection is closed."""
        on_kafka = self.members.members[member].close
        self.take(f"Member {member} dies: its connection ends.", on_kafka, step("sharer_dies", member=member))

    def await_start(self, sentence: str, offset: int) -> None:
        """A step that waits until the coordinator reports the start offset `offset`, below which all is persisted."""
        self.await_seen(sentence, lambda seen: seen.shares is not None and seen.shares.start == offset)

    @property
    def shares(self) -> ShareObservation:
        """The observation of the group after the last step."""
        assert self.observation.shares is not None
        return self.observation.shares

    def given(self) -> dict[int, list[list[int | str]]]:
        """By member, the offset and delivery count of each record that it was given, in order."""
        deeds = self.shares.did.items()
        return {number: [[offset, count] for kind, offset, count in did if kind == GIVEN] for number, did in deeds}

    def answer(self, member: int) -> int | str:
        """The answer to a member's last acknowledgement: an error's name, or NONE."""
        return [answer for kind, _, answer in self.shares.did[member] if kind != GIVEN][-1]

    @property
    def share_coordinator(self) -> int:
        """The broker that is share coordinator of every share group."""
        return share_coordinator_of(self.lease)


@contextmanager
def shares_on(stage: Stage, *, delivery_limit: int = 5, locks_end: bool = False) -> Iterator[ShareStage]:
    """The stage while two members of a share group read the act's topic.

    `locks_end`: whether acquisition locks may end between steps. Both keys must fit the cluster's configuration.
    """
    lease = stage.lease
    lease.admin.alter_configs(ResourceType.GROUP, f"{stage.topic}-shares", {"share.auto.offset.reset": "earliest"})
    with ShareMembers(stage.topic, _MEMBERS, lease.cluster) as members:
        setup = ShareSetup(members=_MEMBERS, delivery_limit=delivery_limit, locks_end=locks_end)
        model = ShareModel(setup, stage.model)
        stage.model = model.cluster = ClusterWithGroupModel(stage.model, model, "shares")
        stage.observer.observe_group = lambda: {"shares": members.observe()}
        stage.settle("Two members join a new share group.")
        yield ShareStage(**stage.own_fields, members=members)


def share_coordinator_of(lease: ClusterLease, *, first: int = 1) -> int:
    """The share coordinator: the leader of `__share_group_state`, which has one partition here.

    If this topic does not exist, it is created with the broker `first` as leader.
    """
    if not lease.admin.partitions(SHARE_STATE):
        configs: Mapping[str, object] = {"min.insync.replicas": 2, "cleanup.policy": "delete", "retention.ms": -1}
        replicas = sorted((1, 2, 3), key=lambda broker: broker != first)
        lease.admin.create_topic(SHARE_STATE, replica_assignment=[replicas], configs=configs)
        lease.admin.await_full_isr([SHARE_STATE])
    return lease.admin.await_leader(SHARE_STATE, 0)
