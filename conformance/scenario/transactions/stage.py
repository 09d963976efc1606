"""The steps of scenarios on transactions, which are requests or faults, each the same on Kafka and in the model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka_chaos.conformance.scenario.clients import read_partitions
from kafka_chaos.conformance.scenario.clusters import ClusterLease, ClusterProfile
from kafka_chaos.conformance.scenario.lockstep import LockStep
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.record import TRANSACTIONS_ACT, ActRecord
from kafka_chaos.conformance.scenario.transactions.observe import TransactionsObserver
from kafka_chaos.conformance.scenario.transactions.producers import (
    Producers,
    await_coordinator,
    coordinator_of,
    leader_of,
)
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.links.on_frames import Hold
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.reference_model.lockstep.observation import TransactionsObservation
from kafka_chaos.reference_model.lockstep.stepping import step
from kafka_chaos.reference_model.lockstep.transactions import TransactionsConfig, TransactionsModel
from kafka_chaos.reference_model.transactions.rules import V2, v1_in

TIMEOUT_MS = 60_000
"""The default `transaction.timeout.ms` of scenarios: longer than any of their transactions."""
ID = "t"
"""The first transactional id of an act, as its story names it."""


@dataclass
class TransactionsStage(LockStep):
    """The stage of a running act on transactions. Its methods are the steps of scenario files."""

    model: TransactionsModel
    clients: Producers
    observer: TransactionsObserver
    _holds: list[tuple[Hold, int]] = field(default_factory=list)  # each fault that holds requests, and the broker hit
    killed: int | None = None
    """The coordinator that `kill_coordinator` killed."""

    # --- Producers -------------------------------------------------------------------------------------------------

    def initialise(self, producer: str, *, id: str = ID, timeout_ms: int = TIMEOUT_MS) -> None:
        """A producer begins as the next incarnation of a transactional id."""
        on_kafka = partial(self.clients.initialise, producer, self.observer.ids[id], timeout_ms=timeout_ms)
        sentence = f"Producer {producer} begins with transactional id {id}."
        self._take(sentence, on_kafka, "initialise", producer=producer, id=id)

    def write(self, producer: str, record: str, *, partition: int = 0) -> None:
        """A producer writes a record; the first one begins its transaction."""
        self._write(f"{producer} writes {record} to partition {partition}.", producer, record, partition)

    def commit_offset(self, producer: str, offset: int) -> None:
        """A producer adds the group's offset to its transaction."""
        sentence = f"{producer} adds the group's offset {offset} to its transaction."
        self._write(sentence, producer, str(offset), self.model.config.offset_partition)

    def feed(self, *records: str) -> None:
        """Write a loop's input to the topic whose offsets the group commits; a recorded fact, not a step."""
        cluster, source = self.lease.cluster, self.clients.source
        with BrokerClient(cluster.addresses[leader_of(cluster, source, 0)], timeout=15) as leader:
            for record in records:
                leader.produce(source, record)
        self.fact("the input", [record for _, record in read_partitions(cluster.bootstrap_servers, source)[0]])

    def handle_input(self, producer: str) -> None:
        """A loop reads the input at the group's offset, and writes the record NUMBER:INPUT; numbers begin with 1."""
        inputs = dict(read_partitions(self.lease.cluster.bootstrap_servers, self.clients.source)[0])
        self.write(producer, f"{self.offset + 1}:{inputs[self.offset]}")

    def commit(self, producer: str) -> None:
        """A producer asks for a commit."""
        self._end(producer, commit=True)

    def abort(self, producer: str) -> None:
        """A producer asks for an abort."""
        self._end(producer, commit=False)

    def crash(self, producer: str) -> None:
        """A producer is gone, and its transaction stays open."""
        self._take(f"{producer} is gone.", partial(self.clients.crash, producer), "crash", producer=producer)

    def hold_end(self, producer: str, *, commit: bool) -> None:
        """A link to the coordinator holds a producer's next EndTxn; the producer gives up waiting for the answer."""
        coordinator = self.coordinator
        target = Target.parse(f"broker:{coordinator}")
        fault = Hold(target=target, api="EndTxn", sender="clients", transactional_id=self.transactional_id, nth=1)

        def hold() -> None:
            fault.inject(self.lease.view, (self.node(coordinator),))
            self.clients.end_in_vain(producer, commit=commit)
            wait_until(
                lambda: fault.proof(self.lease.view, (self.node(coordinator),)).took_effect,
                "the link to hold the request",
                timeout=10,
            )

        self._holds.append((fault, coordinator))
        asks = f"{producer} asks for {_end_of(commit)}"
        sentence = f"{asks}, and gives up waiting: a link holds the request on its way to the coordinator."
        self._take(sentence, hold, "hold_end", producer=producer, commit=commit)

    def release(self) -> None:
        """Let the requests that links hold arrive."""
        self._take("The request that was held arrives.", self._release, "release")

    def await_time_out(self) -> None:
        """A step that waits until the coordinator has ended a transaction that was open for too long."""

        def ended() -> bool:
            observed = self.observer.observe().transactions
            return observed is not None and observed.transactions[ID].state != "Ongoing"

        wait = partial(wait_until, ended, "the coordinator to end the transaction", timeout=90, interval=0.2)
        self._take("transaction.timeout.ms passes.", wait, "time_out", id=ID)

    # --- Faults ----------------------------------------------------------------------------------------------------

    def hold_markers(self, partition: int) -> None:
        """A link to a partition's leader holds the transaction markers of the present coordinator."""
        source, leader = self.coordinator, self.leader(partition)
        fault = Hold(target=Target.parse(f"broker:{leader}"), api="WriteTxnMarkers", sender=f"broker:{source}")
        self._holds.append((fault, leader))
        markers = f"the markers that the coordinator, broker {source}, sends to the leader of partition {partition}"
        hold = partial(fault.inject, self.lease.view, (self.node(leader),))
        self._take(f"A link holds {markers}.", hold, "hold_markers", partition=partition)

    def release_markers(self) -> None:
        """Let the transaction markers that links hold arrive."""
        self._take("The marker that was held arrives.", self._release, "release_markers")

    def kill_coordinator(self) -> None:
        """Kill the coordinator (SIGKILL); another broker takes over."""
        broker = self.killed = self.coordinator
        self._take(f"The coordinator, broker {broker}, is killed (SIGKILL).", self.node(broker).kill, "fail_over")

    # --- Observations ----------------------------------------------------------------------------------------------

    @property
    def transactional_id(self) -> str:
        """The first transactional id, as brokers know it."""
        return self.observer.ids[ID]

    @property
    def coordinator(self) -> int:
        """The broker that coordinates the transactional ids: __transaction_state has one partition."""
        return coordinator_of(self.lease.cluster, self.transactional_id)

    def leader(self, partition: int) -> int:
        """The broker that leads a partition."""
        return leader_of(self.lease.cluster, self.topic, partition)

    @property
    def observed(self) -> TransactionsObservation:
        """The observation of transactions after the last step."""
        return self.observation.transactions or TransactionsObservation()

    @property
    def offset(self) -> int:
        """The group's committed offset after the last step; 0 before the first commit."""
        return (self.observed.offsets.committed or 0) if self.observed.offsets is not None else 0

    def _release(self) -> None:
        while self._holds:
            fault, broker = self._holds.pop()
            fault.heal(self.lease.view, (self.node(broker),))

    def _write(self, sentence: str, producer: str, record: str, partition: int) -> None:
        on_kafka = partial(self.clients.write, producer, record, partition)
        self._take(sentence, on_kafka, "write", producer=producer, record=record, partition=partition)

    def _end(self, producer: str, *, commit: bool) -> None:
        on_kafka = partial(self.clients.end, producer, commit=commit)
        self._take(f"{producer} asks for {_end_of(commit)}.", on_kafka, "end", producer=producer, commit=commit)

    def _take(self, sentence: str, on_kafka: Callable[[], object], action: str, **arguments: Any) -> None:
        self.take(sentence, on_kafka, step(action, **arguments))


def _end_of(commit: bool) -> str:
    return "a commit" if commit else "an abort"


@contextmanager
def transactional_act(
    play: Play,
    name: str,
    *,
    profile: ClusterProfile,
    partitions: int = 2,
    ids: Sequence[str] = (ID,),
    bumps: bool = False,
    with_group: bool = False,
    beside_coordinator: bool = False,
) -> Iterator[TransactionsStage]:
    """The stage of an act on a new topic, with new transactional ids. In `name`, `{version}` is the brokers' version.

    `bumps`: each transaction raises the producer epoch (KIP-890, part 2). `with_group`: producers also commit a group's
    offsets in another new topic, which is empty at first. `beside_coordinator`: the coordinator's broker has no
    replica of the topic.
    """
    with play.pool.leased(profile) as lease:
        lease.settled_controller()
        name = name.format(version=lease.profile.kafka_version)
        topic = play.topic_name(name)
        transactional_ids = {id: f"{topic}-{id}" for id in ids}
        brokers = list(lease.cluster.brokers)
        coordinator = await_coordinator(lease.cluster, transactional_ids[ids[0]])
        if beside_coordinator:
            brokers.remove(coordinator)
        source = f"{topic}-source" if with_group else ""
        _make_topics(lease, {topic: partitions, **({source: 1} if source else {})}, brokers)
        rules = V2 if bumps else v1_in(lease.profile.kafka_version)
        config = TransactionsConfig(rules=rules, ids=tuple(ids), partitions=partitions, has_group=with_group)
        group, offset_partition = (f"{topic}-group", config.offset_partition) if source else ("", -1)
        producers = Producers(lease.cluster, topic, bumps, group, source, offset_partition)
        act = ActRecord(name, lease.profile.name, rules.name, tuple(range(partitions)), {}, kind=TRANSACTIONS_ACT)
        play.begin(act)
        observer = TransactionsObserver(lease.cluster, topic, partitions, transactional_ids, producers)
        stage = TransactionsStage(lease, topic, TransactionsModel(config), act, producers, observer, play.notify)
        stage.settle("The topic is created.")
        yield stage


def _make_topics(lease: ClusterLease, topics: dict[str, int], brokers: Sequence[int]) -> None:
    """Create topics whose partitions have replicas on all of these brokers, which lead the partitions in turn."""
    for topic, count in topics.items():
        turns = [number % len(brokers) for number in range(count)]
        orders = [[*brokers[turn:], *brokers[:turn]] for turn in turns]
        configs = {"min.insync.replicas": min(2, len(brokers))}
        lease.admin.create_topic(topic, replica_assignment=orders, configs=configs)
    lease.admin.await_full_isr(list(topics))
