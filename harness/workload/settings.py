"""Settings that all lanes of a load share, the configs of their producers, and the start of clients as processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.events import Event
from kafka_chaos.contract.run_directory import LOGS_FOLDER
from kafka_chaos.harness.clients.kinds import parse_client
from kafka_chaos.harness.experiment.lane_specs import DELIVERY_TIMEOUT_MS, LINGER_MS, LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.calls import Calls
from kafka_chaos.harness.workload.client_process import ProcessStarter, SupervisedProcess
from kafka_chaos.harness.workload.tables import LoadTables


@dataclass(kw_only=True)
class LoadSettings:
    """Settings that all lanes of a load share.

    `client_configs`: librdkafka's keys for a secured listener, which all clients get. `seed`: of all random choices.
    `emit` gets the events of clients, such as `ClientStarted`. `start_offsets`: by lane and partition, the first offset
    of this run, for topics that already hold records. `began`: when every lane had its first acknowledgement, in
    seconds of the monotonic clock, by which the phase's faults are timed, too; None until then.
    """

    bootstrap_servers: str
    workload: WorkloadSpec
    tables: LoadTables
    on_notice: Callable[[str], None]
    emit: Callable[[Event], None] = lambda event: None
    client_configs: Mapping[str, str] = field(default_factory=dict)
    start_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    seed: int = 0
    began: float | None = None
    calls: Calls = field(default_factory=Calls)

    def producer_configs(self, lane: LaneSpec) -> dict[str, object]:
        """librdkafka's configs of the lane's producers, with those for a secured listener, without `transactional.id`.

        The lane's `producer_configs` override the harness's defaults; its other keys, such as `acks`, override both.
        """
        configs = {
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            "linger.ms": LINGER_MS,
            # Else, a producer that asks for a topic's metadata would create the topic if brokers allow it.
            "allow.auto.create.topics": False,
            **lane.producer_configs,
            "bootstrap.servers": self.bootstrap_servers,
            "acks": lane.acks,
            "enable.idempotence": lane.idempotence,
            "max.in.flight.requests.per.connection": lane.max_in_flight,
            # Brokers are broken on purpose, and the errors that the client would print are in the history.
            "log_level": 0,
        }
        if lane.transactional is not None:
            timeout_ms = lane.transactional.timeout_ms
            configs["transaction.timeout.ms"] = timeout_ms
            # Records must not outlive their transaction. 0 is no time-out at all; both keys are one to librdkafka.
            delivery = configs.pop("delivery.timeout.ms", configs["message.timeout.ms"])
            configs["message.timeout.ms"] = min(int(str(delivery)) or timeout_ms, timeout_ms)
        return {**configs, **self.security_configs(lane)}

    def security_configs(self, lane: LaneSpec) -> Mapping[str, str]:
        """The configs for a secured listener, by the names that the lane's client has for them."""
        client = parse_client(lane.client)
        if client is None or not self.client_configs:
            return self.client_configs
        if client.kind.translate_keys is None:
            raise UsageFailure(f"lane {lane.lane}: kafka-chaos can't secure connections of {client}")
        return client.kind.translate_keys(self.client_configs)

    def process_starter(
        self,
        lane: LaneSpec,
        role: str,
        name: str,
        settings: Mapping[str, object],
        configs: Mapping[str, object],
        *,
        command: Sequence[str] = (),
        may_end: bool = False,
    ) -> ProcessStarter:
        """A function that starts a process of the lane's client in this role, and passes its events to a handler.

        `name`: its `client.id`, also in messages. `settings`: fields of the order `begin` that not all roles have.
        `configs`: of the client's library, beside those for a secured listener. `command`: overrides the client's
        usual command, which the harness's own client lacks. `may_end`: the process may end early.
        """
        client = parse_client(lane.client)
        begin = {
            "role": role,
            "lane": lane.lane,
            "topic": lane.topic_name,
            "partitions": lane.partitions,
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": name,
            **settings,
            "configs": {**configs, **self.security_configs(lane)},
        }
        log = self.tables.run_directory / LOGS_FOLDER / f"client-{name}-{role}.log"
        log.parent.mkdir(exist_ok=True)

        return partial(
            SupervisedProcess,
            command or ([] if client is None else client.command),
            begin,
            name=name if client is None else f"{name}, {client}",
            on_notice=self.on_notice,
            emit=self.emit,
            version="" if client is None else client.version,
            may_end=may_end,
            log=log,
        )
