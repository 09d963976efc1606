"""The members of a scenario's share group, who send single requests, and the start offset from the coordinator.

A member asks for one record at a time and sends each acknowledgement alone, so that each answer of the partition's
leader belongs to one step. Its session at a leader is its connection there.
"""

import base64
import uuid
from dataclasses import dataclass, field
from typing import Any, Self

from kafka_chaos.conformance.broker_client import ScenarioClient
from kafka_chaos.conformance.scenario.transactions.producers import coordinator_of, leader_of
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire import messages
from kafka_chaos.harness.cluster.broker.client import MAX_BYTES, NONE, BrokerClient, CoordinatorKind, error_name
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.reference_model.lockstep.observation import GIVEN, ShareDeed, ShareObservation
from kafka_chaos.reference_model.lockstep.shares import ACCEPT, NO_SESSION, NOT_ACQUIRED, REJECT, RELEASE, TAKEN

_TYPES = {ACCEPT: 1, RELEASE: 2, REJECT: 3}
"""The code of each kind of acknowledgement (KIP-932)."""
_FINAL_ANSWERS = (TAKEN, NOT_ACQUIRED, NO_SESSION)
"""The final answers to an acknowledgement. After any other error it is sent again."""
_TIMEOUT = 60.0  # seconds within which a member's repeated request must succeed
_WAIT_MS = 500  # how long a leader may wait for a record before it answers a fetch


def _first_error(*answers: Any) -> str | None:
    """The name of the first error in an answer and its parts, if any."""
    return next((error_name(answer.error_code) for answer in answers if answer.error_code != NONE), None)


class _Session:
    """A share session of a member at a leader: a connection, and the epoch that each request raises (KIP-932)."""

    def __init__(self, leader: int, address: str, epoch: int = 0) -> None:
        self.leader, self.epoch = leader, epoch
        self.connection = ScenarioClient(address, timeout=20)

    def take_epoch(self) -> int:
        self.epoch += 1
        return self.epoch - 1


@dataclass
class ShareMember:
    """One member. `deeds`: what it did, in order. `errors`: the errors after which it sent a request again."""

    group: str
    topic_id: Any
    id: str
    deeds: list[ShareDeed] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    session: _Session | None = None

    def fetch(self, session: _Session) -> tuple[int, int] | None:
        """Ask for one record. Returns its offset and delivery count, or None if no record came."""
        is_first = session.epoch == 0
        topic_type = messages.ShareFetchRequest.FetchTopic
        topics = [topic_type(topic_id=self.topic_id, partitions=[topic_type.FetchPartition(partition_index=0)])]
        answer = session.connection.request(
            messages.ShareFetchRequest(
                group_id=self.group,
                member_id=self.id,
                share_session_epoch=session.take_epoch(),
                max_wait_ms=_WAIT_MS,
                min_bytes=1,
                max_bytes=MAX_BYTES,
                max_records=1,
                batch_size=1,
                topics=topics if is_first else [],
                version=1,
            )
        )
        parts = [part for topic in answer.responses for part in topic.partitions]
        if error := _first_error(answer, *parts):
            self.errors.append(error)
            self.close()
        acquired = [batch for part in parts for batch in part.acquired_records or ()]
        return (int(acquired[0].first_offset), int(acquired[0].delivery_count)) if acquired else None

    def acknowledgement(self, session: _Session, kind: str, offset: int) -> Any:
        """The request by which the member acknowledges a record."""
        topic = messages.ShareAcknowledgeRequest.AcknowledgeTopic
        part = topic.AcknowledgePartition
        batch = part.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[_TYPES[kind]])
        entry = topic(topic_id=self.topic_id, partitions=[part(partition_index=0, acknowledgement_batches=[batch])])
        return messages.ShareAcknowledgeRequest(
            group_id=self.group, member_id=self.id, share_session_epoch=session.take_epoch(), topics=[entry], version=1
        )

    def close(self) -> None:
        """Close the connection to the leader, which ends the session there."""
        if self.session is not None:
            self.session.connection.close()
        self.session = None


@dataclass
class ShareMembers:
    """The members of a share group that reads partition 0 of `topic`, numbered from 1; a context manager."""

    topic: str
    count: int
    cluster: Cluster
    members: dict[int, ShareMember] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = f"{self.topic}-shares"

    def __enter__(self) -> Self:
        for number in range(1, self.count + 1):
            self.members[number] = self._new_member()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            member.close()

    def poll(self, number: int) -> None:
        """Let a member ask again and again until it is given a record."""
        awaited = f"member {number} to be given a record"
        offset, count = wait_until(lambda: self.ask_once(number), awaited, timeout=_TIMEOUT, interval=0.05)
        self.members[number].deeds.append((GIVEN, offset, count))

    def ask_once(self, number: int) -> tuple[int, int] | None:
        """Let a member ask once; returns the offset and delivery count of the record that it is given, if any."""
        member = self.members[number]
        try:
            return member.fetch(self._session(member))
        except ClusterFailure as trouble:
            member.errors.append(str(trouble))
            member.close()
            return None

    def acknowledge(self, number: int, kind: str, offset: int) -> None:
        """Let a member acknowledge a record again and again until the acknowledgement is taken or refused."""
        member = self.members[number]

        def send_once() -> str | None:
            try:
                session = self._session(member, keeps_epoch=True)
                answer = session.connection.request(member.acknowledgement(session, kind, offset))
            except ClusterFailure as trouble:
                member.errors.append(str(trouble))
                return None
            error = _first_error(answer, *(part for topic in answer.responses for part in topic.partitions)) or TAKEN
            if error == NO_SESSION:
                member.close()
            if error not in _FINAL_ANSWERS:
                member.errors.append(error)
            return error if error in _FINAL_ANSWERS else None

        awaited = f"an answer to member {number}, which acknowledges offset {offset}"
        error = wait_until(send_once, awaited, timeout=_TIMEOUT, interval=0.2, seen=lambda: str(member.errors))
        member.deeds.append((kind, offset, error))

    def acknowledge_unheard(self, number: int, kind: str, offset: int) -> None:
        """Let a member send an acknowledgement without receiving the answer."""
        member = self.members[number]
        if member.session is None:
            raise ClusterFailure(f"member {number} has no session: expected one, since it has a record in hand")
        member.session.connection.tell(member.acknowledgement(member.session, kind, offset))

    def observe(self) -> ShareObservation:
        """Observe the group. Raises `ClusterFailure` while no coordinator answers."""
        group_type = messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
        topic = group_type.DescribeShareGroupOffsetsRequestTopic(topic_name=self.topic, partitions=[0])
        question = group_type(group_id=self.id, topics=[topic])
        request = messages.DescribeShareGroupOffsetsRequest(groups=[question], version=0)
        with self._coordinator() as coordinator:
            group = coordinator.request(request).groups[0]
        parts = [part for answered in group.topics for part in answered.partitions]
        if (error := _first_error(group, *parts)) or not parts:
            raise ClusterFailure(f"the start offset of {self.id} can't be read: {error or 'the answer has none'}")
        did = {number: tuple(member.deeds) for number, member in self.members.items()}
        return ShareObservation(start=int(parts[0].start_offset), did=did)

    def _session(self, member: ShareMember, *, keeps_epoch: bool = False) -> _Session:
        """The member's session at the leader; without one, a new connection, whose first fetch (epoch 0) begins one.

        With `keeps_epoch`, a member that was connected to another leader goes on with the epoch of its former session,
        although that session is over: the leader answers `NO_SESSION`. Raises `ClusterFailure` if no leader is reached.
        """
        leader, session = leader_of(self.cluster, self.topic, 0), member.session
        if session is None or session.leader != leader:
            epoch = session.epoch if session is not None and keeps_epoch else 0
            member.close()
            member.session = session = _Session(leader, self.cluster.addresses[leader], epoch)
        return session

    def _new_member(self) -> ShareMember:
        """A new member, once the group's coordinator has assigned the partition to it."""
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        epoch = 0

        def ask_for_topic_id() -> Any:
            nonlocal epoch
            heartbeat = messages.ShareGroupHeartbeatRequest(
                group_id=self.id,
                member_id=name,
                member_epoch=epoch,
                subscribed_topic_names=[self.topic] if epoch == 0 else None,
                version=1,
            )
            try:
                with self._coordinator() as coordinator:
                    answer = coordinator.request(heartbeat)
            except ClusterFailure:
                return None
            if answer.error_code != NONE:
                return None
            epoch = answer.member_epoch
            topics = answer.assignment.topic_partitions if answer.assignment is not None else ()
            return topics[0].topic_id if topics else None

        topic_id = wait_until(ask_for_topic_id, f"{self.id} to have a member", timeout=_TIMEOUT, interval=0.5)
        return ShareMember(self.id, topic_id, name)

    def _coordinator(self) -> BrokerClient:
        """A connection to the group's coordinator. Raises `ClusterFailure` if none can be reached."""
        return BrokerClient(self.cluster.addresses[coordinator_of(self.cluster, self.id, CoordinatorKind.GROUP)])
