"""The members of a scenario's group, a process each, and what the group shows from outside.

Partitions have owners only while no rebalance goes on; one that waits for a member may last. A member tells its
generation and its partitions between batches, and never while it is frozen or dead: then they are not observed.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_chaos.conformance.scenario.groups.member import GIVEN_WITHIN
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.groups import CLASSIC, COOPERATIVE, Group
from kafka_chaos.faults.helper import Helper
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.groups.commits import REFUSALS
from kafka_chaos.harness.workload.groups.work import member_configs
from kafka_chaos.reference_model.lockstep.observation.clients import (
    COMMITTED,
    GIVEN,
    NOBODY,
    PROCESSED,
    REFUSED,
    Deed,
    GroupObservation,
    MemberObservation,
)

_MODULE = "kafka_chaos.conformance.scenario.groups.member"
HEARTBEAT_MS = 500
_ASKED = 10.0
_SETTLED = ("STABLE", "EMPTY")
_REFUSALS = frozenset(KafkaError(code).name() for code in REFUSALS)
_COMMITTED_WITHIN = 60.0


class MemberProcess(Helper):
    """One member. `did`: what it has told so far, also before it was started again."""

    def __init__(self, settings: Mapping[str, Any], did: list[Deed]) -> None:
        super().__init__(_MODULE, "member", settings)
        self.did = did
        self.errors: list[str] = []
        self.id: str | None = None
        self.is_frozen = False

    @property
    def runs(self) -> bool:
        """Whether its process runs and is not frozen."""
        return self._process.poll() is None and not self.is_frozen

    def order(self, what: str, *, within: float = 20.0, **arguments: object) -> dict[str, Any]:
        """Give an order and wait for the answer. Raises `ClusterFailure` if there is none in time."""
        answer: dict[str, Any] = self.ask(what, within=within, **arguments)
        return answer

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal, and wait for its end if it is SIGKILL."""
        self.is_frozen = number == signal.SIGSTOP
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()


@dataclass
class Members:
    """The members of a group that reads `topic`, by number from 1; a context manager that ends them.

    `heartbeat_ms`: how often members learn from their coordinator what has become of them, with the protocol `classic`.
    """

    bootstrap_servers: str
    topic: str
    partitions: int
    group: Group
    heartbeat_ms: int = HEARTBEAT_MS
    _processes: dict[int, MemberProcess] = field(default_factory=dict)
    _successors: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = f"{self.topic}-group"
        self._admin = new_client(AdminClient, {"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.signal(signal.SIGKILL)

    # --- What members do -------------------------------------------------------------------------------------------

    def join(self, number: int, *, place_of: int | None = None) -> None:
        """Start a member, or one that was killed again: it has the same history.

        `place_of`: the member whose `group.instance.id` it has, if not one of its own.
        """
        configs = {
            **member_configs(self.group),
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.id,
            "client.id": _client_id(number),
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            # A member that is in the middle of a batch between two steps takes as long as these take.
            "max.poll.interval.ms": 900_000,
            **({"heartbeat.interval.ms": self.heartbeat_ms} if self.group.protocol == CLASSIC else {}),
            **({"group.instance.id": _client_id(place_of or number)} if self.group.static else {}),
        }
        incremental = self.group.protocol != CLASSIC or self.group.assignor == COOPERATIVE
        settings = {"topic": self.topic, "commits": self.group.commits, "configs": configs, "incremental": incremental}
        if place_of is not None:
            self._successors[place_of] = number
        before = self._processes.get(number)
        self._processes[number] = MemberProcess(settings, [] if before is None else before.did)

    def poll(self, number: int, partition: int) -> None:
        """It polls until it is given a record."""
        member = self._processes[number]
        offset = member.order("poll", within=GIVEN_WITHIN + 10, partition=partition)["offset"]
        if offset is None:
            raise ClusterFailure(f"member {number} was given nothing of partition {partition} within {GIVEN_WITHIN} s")
        member.did.append((GIVEN, partition, offset))

    def process(self, number: int) -> None:
        """It processes the record in its hands."""
        member = self._processes[number]
        answer = member.order("process")
        member.did.append((PROCESSED, answer["partition"], answer["offset"]))

    def commit(self, number: int, partition: int) -> None:
        """It commits until it is acknowledged or refused."""
        member = self._processes[number]

        def answered() -> dict[str, Any] | None:
            answer = member.order("commit", within=_COMMITTED_WITHIN, partition=partition)
            if answer["error"] is not None:
                member.errors.append(answer["error"])
            return answer if answer["error"] is None or answer["error"] in _REFUSALS else None

        what = f"the answer to a commit of member {number}"
        answer = wait_until(answered, what, timeout=_COMMITTED_WITHIN, interval=0.2, seen=lambda: str(member.errors))
        is_refused = answer["error"] is not None
        member.order("end_batch", refused=is_refused)
        member.did.append((REFUSED if is_refused else COMMITTED, partition, answer["offset"]))

    def leave(self, number: int) -> None:
        """It leaves in order."""
        self._processes[number].order("leave")

    def signal(self, number: int, what: signal.Signals) -> None:
        """Its process gets a signal."""
        self._processes[number].signal(what)

    def errors(self, number: int) -> list[str]:
        """The errors that its commits were answered with."""
        return list(self._processes[number].errors)

    # --- What is seen of them --------------------------------------------------------------------------------------

    def observe(self) -> GroupObservation:
        """Everything that can be observed of the group now.

        Raises `ClusterFailure` without an answer of the coordinator, or if a rebalance goes on in which no member has
        to be waited for.
        """
        described = self._described()
        each = {number: self._member(process) for number, process in self._processes.items()}
        members = {self._number(member): member for member in described.members}
        is_settled = described.state.name in _SETTLED
        if not is_settled and all(each[number].has is not None for number in members):
            raise ClusterFailure(f"the group is {described.state.name}")
        owners = [NOBODY] * self.partitions
        for number, member in members.items():
            for one in member.assignment.topic_partitions:
                owners[one.partition] = number
        return GroupObservation(
            members=tuple(sorted(members)),
            owners=tuple(owners) if is_settled else None,
            committed=self._committed(),
            each=each,
        )

    def coordinator(self) -> int:
        """The broker that is the group's coordinator."""
        return int(self._described().coordinator.id)

    def _described(self) -> Any:
        try:
            return self._admin.describe_consumer_groups([self.id], request_timeout=_ASKED)[self.id].result()
        except KafkaException as failure:
            raise ClusterFailure(f"the coordinator does not describe the group: {failure.args[0].str()}") from failure

    def _committed(self) -> tuple[int, ...]:
        asked = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        try:
            wanted = [ConsumerGroupTopicPartitions(self.id, asked)]
            found = self._admin.list_consumer_group_offsets(wanted, request_timeout=_ASKED)[self.id].result()
        except KafkaException as failure:
            raise ClusterFailure(f"the committed offsets can't be read: {failure.args[0].str()}") from failure
        return tuple(max(one.offset, 0) for one in sorted(found.topic_partitions, key=lambda one: one.partition))

    def _number(self, described: Any) -> int:
        """Whom the coordinator describes: by client.id, but it keeps that of a static member that another replaced."""
        number = int(described.client_id.removeprefix("member-"))
        successor = self._successors.get(number, number)
        return successor if self._processes[successor].id == described.member_id else number

    def _member(self, process: MemberProcess) -> MemberObservation:
        if not process.runs:
            return MemberObservation(did=tuple(process.did))
        told = process.order("tell")
        process.id = told["id"]
        has = None if told["has"] is None else tuple(told["has"])
        return MemberObservation(generation=told["generation"], has=has, did=tuple(process.did))


def _client_id(number: int) -> str:
    return f"member-{number}"
