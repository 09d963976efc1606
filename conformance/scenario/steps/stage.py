"""The steps of scenarios that are not faults: producers, consumers and topics, on Kafka and in the model."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from kafka_chaos.conformance.scenario.clients import Producers, commit_an_offset, read_partitions
from kafka_chaos.conformance.scenario.observe import ReplicaObserver
from kafka_chaos.conformance.scenario.steps.availability import AvailabilitySteps
from kafka_chaos.conformance.scenario.steps.controllers import ControllerSteps
from kafka_chaos.conformance.scenario.steps.faults import cut_steps
from kafka_chaos.conformance.scenario.steps.upgrades import UpgradeSteps
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.broker.client import NONE, ask_each, error_name
from kafka_chaos.harness.cluster.broker.leadership import elect_preferred, reassign
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.observation import Observation, ReplicaObservation
from kafka_chaos.reference_model.lockstep.state import ANY_CLIENT, CLIENTS
from kafka_chaos.reference_model.lockstep.stepping import Step, step


@dataclass
class Stage(ControllerSteps, UpgradeSteps, AvailabilitySteps):
    """The stage of a running act. Its methods are the steps of scenario files: `kill and send` is `kill_and_send`."""

    model: ClusterModel
    clients: Producers
    observer: ReplicaObserver
    answer_counts: Counter[str] = field(default_factory=Counter)
    """How often brokers gave each answer while `kill_and_send` watched: an error's name, or `served`."""
    reported: list[str | None] = field(default_factory=list)
    """The error in each delivery report of `send_too_large`; None for a report of success."""
    clock_started: float = 0.0
    """When `start_clock` started the clock, in seconds since 1970."""
    _monotonic_start: float = 0.0

    @property
    def own_fields(self) -> dict[str, Any]:
        """The fields of this stage by name, from which the stage of a group or a share group is made."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def produce(
        self,
        record: str,
        *,
        acks: str = "all",
        producer: str = "p",
        idempotent: bool = False,
        key: str | None = None,
        tombstone: bool = False,
        configs: Mapping[str, object] | None = None,
        asks: Sequence[int] = (),
        knows_only: int | None = None,
        then: Sequence[Step] = (),
    ) -> None:
        """A producer sends a record and retries until it gets an answer; `then`: actions of the model that follow.

        `asks`: the only brokers that the producer asks for the leader. `knows_only`: a frozen broker, to which the
        producer has a connection and a request in flight; it asks no other broker before the frozen one continues.
        """
        if knows_only is not None:
            self._open_at_thaw = [(CLIENTS, ANY_CLIENT, other) for other in self.act.replicas if other != knows_only]
        configs = {**(configs or {}), **(self.bootstrap_settings(*asks) if asks else {})}
        settings: dict[str, Any] = {
            "producer": producer,
            "acks": acks,
            "idempotent": idempotent,
            "key": key,
            "tombstone": tombstone,
        }
        subject = "An idempotent producer" if idempotent else "A producer"
        subject += f", which takes {self.name(knows_only)} for the leader," if knows_only is not None else ""
        self.take(
            f"{subject} sends {record} with acks={acks}{f' and key {key}' if key else ''}.",
            lambda: self.clients.send(record, **settings, configs=configs),
            *cut_steps(*self._open_at_thaw),
            step("produce", record=record, **settings),
            *then,
        )

    def kill_and_send(self, broker: int, record: str, *, watch: bool = False) -> None:
        """Kill the leader (SIGKILL), and send a record at once, from a producer that has sent to this leader before.

        `watch`: ask the other brokers for their latest offset until one of them leads; `answer_counts` counts answers.
        """

        def on_kafka() -> None:
            self.node(broker).kill()
            self.clients.send(record)
            if watch:
                others = [other for other in self.act.replicas if other != broker]
                wait_until(lambda: self.any_leads(others), "another broker to serve the partition", timeout=40)

        sentence = f"The leader is killed; {record} is sent at once."
        self.take(sentence, on_kafka, step("kill", broker=broker), step("produce", record=record))

    def any_leads(self, brokers: Sequence[int]) -> bool:
        """Whether any of these brokers serves the partition, as only a leader does. `answer_counts` counts answers."""
        leads, addresses = False, [self.lease.cluster.addresses[broker] for broker in brokers]
        for error, _ in ask_each(addresses, lambda client: client.latest_offset(self.topic)):
            self.answer_counts["served" if error == NONE else error_name(error)] += 1
            leads = leads or error == NONE
        return leads

    def reassign(self, sentence: str, *, replicas: Sequence[int], elect: bool = False) -> None:
        """Ask broker 3, the controller, to reassign the partition; `elect`: then elect the first replica as leader."""
        partition, order = (self.topic, 0), tuple(replicas)

        def ask() -> None:
            with self.connect(3) as controller:
                controller.set_timeout(15)
                refused = reassign(controller, {partition: order})
                self.expect("The controller accepts the reassignment", refused.get(partition, NONE), NONE)
                if elect:
                    wait_until(
                        lambda: self.lease.admin.await_partitions(self.topic)[0].replicas == order,
                        "the reassignment to complete",
                        timeout=30,
                    )
                    elected = elect_preferred(controller, [partition])
                    self.expect("The preferred leader election reports success", elected, NONE)

        self.take(sentence, ask, step("reassign", replicas=order), *([step("elect_preferred")] if elect else []))

    def configure(self, sentence: str, *, configs: Mapping[str, object], then: Sequence[Step] = ()) -> None:
        """Change settings of the topic; `then`: actions of the model that follow."""
        self.take(sentence, lambda: self.lease.admin.alter_configs(ResourceType.TOPIC, self.topic, configs), *then)

    def roll(self) -> None:
        """Tell the model that the active segments are full, as they are on Kafka by now: the next append rolls them."""
        rolled = [step("roll", broker=broker) for broker in self.act.replicas]
        self.take("The active segments are full; the next record will roll them.", lambda: None, *rolled)

    def commit_an_offset(self) -> None:
        """A consumer group commits an offset of the topic. The model takes no step: it has no groups."""
        commit_an_offset(self.lease.cluster.bootstrap_servers, self.topic)

    def let_pass(self, sentence: str, *, seconds: float) -> None:
        """Let `seconds` pass, to show that nothing happens: there is no condition to wait for."""
        until = time.monotonic() + seconds
        self.await_seen(sentence, lambda seen: time.monotonic() > until)

    def start_clock(self) -> None:
        """Start the clock by which `seconds_until_answered` counts."""
        self._monotonic_start, self.clock_started = time.monotonic(), time.time()

    def seconds_until_answered(self, record: str) -> float:
        """The time from `start_clock` until the record's producer got its answer, in seconds with two decimals."""
        answered = {answer.record: answer.arrival for answer in self.clients.answers()}
        return round(answered[record] - self._monotonic_start, 2)

    def send_once(self, record: str, *, sentence: str) -> None:
        """A producer sends a record to the leader once, with acks=all; `answer_errors` gets the error, or NONE."""

        def send() -> None:
            with self.connect(self.observation.leader or self.act.replicas[0]) as leader:
                leader.set_timeout(60)
                self.answer_errors[record] = error_name(leader.produce(self.topic, record, timeout=5)[0])

        self.take(sentence, send, step("produce", record=record, producer=record), step("give_up", record=record))

    def send_unanswered(self, record: str, *, acks: str) -> None:
        """A producer sends a record to the leader, and closes the connection once the record is appended."""
        with self.connect(self.observation.leader or self.act.replicas[0]) as leader:
            self.take(
                f"A producer sends {record} with acks={acks}, and takes no answer.",
                lambda: leader.send(self.topic, record, acks=acks),
                step("send_unanswered", record=record, acks=acks),
            )

    def send_too_large(self, record: str, *, size: int) -> None:
        """Another producer sends a record of more than `size` bytes with acks=0, which the broker refuses."""

        def send() -> None:
            with Producers(self.lease.cluster.bootstrap_servers, self.topic) as other:
                other.send(record + "x" * size, producer="too large", acks="0")
                wait_until(other.answers, f"a delivery report on {record}", timeout=30)
                self.reported = [answer.error for answer in other.answers()]

        self.take(f"A producer sends {record}, too large for the topic, with acks=0.", send)

    def fill(self, partition: int, *records: str) -> None:
        """A producer sends records to another partition, which is not in the model."""
        with Producers(self.lease.cluster.bootstrap_servers, self.topic) as other:

            def send() -> None:
                for record in records:
                    other.send(record, partition=partition)
                awaited = f"partition {partition} to have its records"
                wait_until(lambda: len(other.acknowledged()) == len(records), awaited, timeout=30)

            self.take(f"A producer sends {len(records)} records to partition {partition}.", send)

    def await_committed(self, record: str, high_watermark: int) -> None:
        """A step that waits until every replica has this high watermark, which shows that the record is committed."""
        self.await_seen(
            f"Every broker knows that {record} is committed.",
            lambda seen: set(self.high_watermarks(seen)) == {high_watermark},
        )

    def high_watermarks(self, seen: Observation | None = None) -> list[int | None]:
        """The high watermarks that all replicas have in memory, in the order of the act's brokers."""
        return [(seen or self.observation).replicas[broker].high_watermark for broker in self.act.replicas]

    def replica(self, broker: int) -> ReplicaObservation:
        """A replica as it was observed after the last step."""
        return self.observation.replicas[broker]

    def log(self, broker: int) -> list[str]:
        """The names of the records that a broker held after the last step, in offset order."""
        return [record for _, record, _ in self.replica(broker).log or ()]

    def logs(self) -> list[list[str]]:
        """The `log` of each broker, in the order of the act's brokers."""
        return [self.log(broker) for broker in self.act.replicas]

    @property
    def acknowledged(self) -> dict[str, int | None]:
        """The offset of each record that was acknowledged until the last step."""
        return dict(self.observation.acknowledged or ())

    def read(self) -> list[str]:
        """The records that a consumer reads from the beginning to the end of the partition."""
        return [record for _, record in read_partitions(self.lease.cluster.bootstrap_servers, self.topic)[0]]

    def bootstrap_settings(self, *brokers: int) -> dict[str, object]:
        """Client settings with which a producer asks only these brokers for the leader."""
        return {"bootstrap.servers": ",".join(self.lease.cluster.addresses[broker] for broker in brokers)}
