"""The members of a scenario's consumer group, each a process, and observations of the group from outside.

While a rebalance waits for a member, which may take long, the group is observed without the owners of its partitions. A
member's generation and partitions are observed only between its batches, and not if it is frozen or dead.
"""

import signal
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_chaos.conformance.scenario.groups.member import POLL_TIMEOUT
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.groups import CLASSIC, COOPERATIVE, Group
from kafka_chaos.faults.helper import Helper
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.groups.commits import REFUSALS
from kafka_chaos.harness.workload.groups.group_kinds import member_configs
from kafka_chaos.reference_model.lockstep import observation
from kafka_chaos.reference_model.lockstep.state import NOBODY

_MODULE = "kafka_chaos.conformance.scenario.groups.member"
HEARTBEAT_MS = 500
_REQUEST_TIMEOUT_S = 10.0
_SETTLED_STATES = ("STABLE", "EMPTY")  # the states of a group without a rebalance in progress
_REFUSAL_NAMES = frozenset(KafkaError(code).name() for code in REFUSALS)
_COMMIT_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 20.0


class MemberProcess(Helper):
    """The process of a member. `deeds`: what the member did so far, also in a former process that was killed."""

    def __init__(self, settings: Mapping[str, Any], deeds: list[observation.Deed]) -> None:
        super().__init__(_MODULE, "member", settings)
        self.deeds = deeds
        self.errors: list[str] = []
        self.id: str | None = None
        self.is_frozen = False

    @property
    def is_running(self) -> bool:
        """Whether the member's process runs and is not frozen."""
        return self._process.poll() is None and not self.is_frozen

    def signal(self, kind: signal.Signals) -> None:
        """Send the process a signal; after SIGKILL, wait until the process has ended."""
        self.is_frozen = kind == signal.SIGSTOP
        self._process.send_signal(kind)
        if kind == signal.SIGKILL:
            self._process.wait()


@dataclass
class Members(AbstractContextManager["Members"]):
    """The members of a group that reads `topic`, numbered from 1; a context manager that ends them.

    `heartbeat_ms`: the heartbeat interval, by which members of the protocol `classic` learn of rebalances.
    """

    bootstrap_servers: str
    topic: str
    partitions: int
    group: Group
    heartbeat_ms: int = HEARTBEAT_MS
    _processes: dict[int, MemberProcess] = field(default_factory=dict)
    _successors: dict[int, int] = field(default_factory=dict)
    """For each static member that was replaced, by number: the number of the member that replaced it."""

    def __post_init__(self) -> None:
        self.id = f"{self.topic}-group"
        self._admin = new_client(AdminClient, {"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.signal(signal.SIGKILL)

    # --- What members do -------------------------------------------------------------------------------------------

    def join(self, number: int, *, replaces: int | None = None) -> None:
        """Start a member. A member that was killed keeps its deeds.

        `replaces`: the number of the member whose `group.instance.id` the new member takes over, if any.
        """
        configs = {
            **member_configs(self.group),
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.id,
            "client.id": f"member-{number}",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            # In the middle of a batch a member does not poll while other steps are taken, however long they take.
            "max.poll.interval.ms": 900_000,
            **({"heartbeat.interval.ms": self.heartbeat_ms} if self.group.protocol == CLASSIC else {}),
            **({"group.instance.id": f"member-{replaces or number}"} if self.group.static else {}),
        }
        incremental = self.group.protocol != CLASSIC or self.group.assignor == COOPERATIVE
        settings = {"topic": self.topic, "commits": self.group.commits, "configs": configs, "incremental": incremental}
        if replaces is not None:
            self._successors[replaces] = number
        former = self._processes.get(number)
        self._processes[number] = MemberProcess(settings, [] if former is None else former.deeds)

    def poll(self, number: int, partition: int) -> None:
        """Let a member poll until it is given a record of `partition`."""
        member = self._processes[number]
        offset = member.ask("poll", within=POLL_TIMEOUT + 10, partition=partition)["offset"]
        if offset is None:
            raise ClusterFailure(f"member {number} was given nothing of partition {partition} within {POLL_TIMEOUT} s")
        member.deeds.append((observation.GIVEN, partition, offset))

    def process(self, number: int, partition: int) -> None:
        """Let a member process the record in hand; the member knows its partition, so `partition` is not used."""
        member = self._processes[number]
        answer = member.ask("process", within=_ANSWER_TIMEOUT_S)
        member.deeds.append((observation.PROCESSED, answer["partition"], answer["offset"]))

    def commit(self, number: int, partition: int) -> None:
        """Let a member commit its position, again and again, until the commit is acknowledged or refused."""
        member = self._processes[number]

        def try_commit() -> dict[str, Any] | None:
            answer: dict[str, Any] = member.ask("commit", within=_COMMIT_TIMEOUT_S, partition=partition)
            if answer["error"] is not None:
                member.errors.append(answer["error"])
            return answer if answer["error"] is None or answer["error"] in _REFUSAL_NAMES else None

        awaited = f"the answer to a commit of member {number}"
        answer = wait_until(
            try_commit, awaited, timeout=_COMMIT_TIMEOUT_S, interval=0.2, seen=lambda: str(member.errors)
        )
        is_refused = answer["error"] is not None
        member.ask("end_batch", within=_ANSWER_TIMEOUT_S, refused=is_refused)
        member.deeds.append((observation.REFUSED if is_refused else observation.COMMITTED, partition, answer["offset"]))

    def leave(self, number: int) -> None:
        """Let a member leave the group, as an orderly shutdown does."""
        self._processes[number].ask("leave", within=_ANSWER_TIMEOUT_S)

    def signal(self, number: int, kind: signal.Signals) -> None:
        """Send a signal to a member's process."""
        self._processes[number].signal(kind)

    def errors(self, number: int) -> list[str]:
        """The names of the errors with which a member's commits were answered, in order."""
        return list(self._processes[number].errors)

    # --- Observations ----------------------------------------------------------------------------------------------

    def observe(self) -> observation.GroupObservation:
        """Observe members, owners of partitions, committed offsets, and what each member tells and did.

        Raises `ClusterFailure` if the coordinator does not answer, or during a rebalance that waits for no member, as
        none is frozen, dead or in the middle of a batch: such a rebalance will soon be over.
        """
        described = self._describe()
        observed = {number: self._observe_member(process) for number, process in self._processes.items()}
        members = {self._number(member): member for member in described.members}
        is_settled = described.state.name in _SETTLED_STATES
        if not is_settled and all(observed[number].has is not None for number in members):
            raise ClusterFailure(f"the group's state is {described.state.name}")
        owners = [NOBODY] * self.partitions
        for number, member in members.items():
            for assigned in member.assignment.topic_partitions:
                owners[assigned.partition] = number
        return observation.GroupObservation(
            members=tuple(sorted(members)),
            owners=tuple(owners) if is_settled else None,
            committed=self._committed_offsets(),
            by_member=observed,
        )

    def coordinator(self) -> int:
        """The node id of the group's coordinator."""
        return int(self._describe().coordinator.id)

    def _describe(self) -> Any:
        try:
            return self._admin.describe_consumer_groups([self.id], request_timeout=_REQUEST_TIMEOUT_S)[self.id].result()
        except KafkaException as failure:
            raise ClusterFailure(f"the coordinator does not describe the group: {failure.args[0].str()}") from failure

    def _committed_offsets(self) -> tuple[int, ...]:
        partitions = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        request = [ConsumerGroupTopicPartitions(self.id, partitions)]
        try:
            answers = self._admin.list_consumer_group_offsets(request, request_timeout=_REQUEST_TIMEOUT_S)
            offsets = answers[self.id].result()
        except KafkaException as failure:
            raise ClusterFailure(f"the committed offsets can't be read: {failure.args[0].str()}") from failure
        committed = sorted(offsets.topic_partitions, key=lambda answer: answer.partition)
        return tuple(max(answer.offset, 0) for answer in committed)

    def _number(self, described: Any) -> int:
        """The number of the member that the coordinator describes, taken from its client.id.

        If a static member was replaced, the coordinator still shows the client.id of the former one.
        """
        number = int(described.client_id.removeprefix("member-"))
        successor = self._successors.get(number, number)
        return successor if self._processes[successor].id == described.member_id else number

    def _observe_member(self, process: MemberProcess) -> observation.MemberObservation:
        if not process.is_running:
            return observation.MemberObservation(did=tuple(process.deeds))
        answer = process.ask("tell", within=_ANSWER_TIMEOUT_S)
        process.id = answer["id"]
        has = None if answer["has"] is None else tuple(answer["has"])
        return observation.MemberObservation(generation=answer["generation"], has=has, did=tuple(process.deeds))
