"""Settings that all lanes of a load share, the configs of their producers, and the start of clients as processes."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.events import (
    AcknowledgedWithoutOffset,
    CallNoted,
    ClientFailed,
    ClientStarted,
    DefectPrecondition,
    ReaderEnded,
    ReaderStarted,
)
from kafka_chaos.contract.run_directory import LOGS_FOLDER
from kafka_chaos.harness.clients.kinds import parse_client
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.calls import Calls
from kafka_chaos.harness.workload.client_process import EventHandler, Start, SupervisedProcess
from kafka_chaos.harness.workload.tables import LoadTables

LINGER_MS = 5
_SILENT = logging.Logger("kafka_chaos.transactional_producer")
_SILENT.addHandler(logging.NullHandler())
_DELIVERY_TIMEOUT_MS = 60_000

OnPrecondition = Callable[[DefectPrecondition | AcknowledgedWithoutOffset], None]
OnClient = Callable[[ClientStarted | ClientFailed | ReaderStarted | ReaderEnded | CallNoted], None]


@dataclass
class LoadClock:
    """When the times of a phase began to count, in seconds of the monotonic clock; None until then.

    They count from the moment when every lane has its first acknowledgement, as those of a schedule's faults do.
    """

    began: float | None = None


@dataclass(frozen=True, kw_only=True)
class LoadSettings:
    """Settings that all lanes of a load share.

    `client_configs`: what all clients get for a secured listener, as keys of librdkafka. `seed` decides what is random.
    `on_change` learns what became of a member: its group, its name, and a change of `MemberChanged`.
    """

    bootstrap_servers: str
    workload: WorkloadSpec
    tables: LoadTables
    on_notice: Callable[[str], None]
    on_change: Callable[[str, str, str], None] = lambda group, member, change: None
    on_precondition: OnPrecondition | None = None
    on_client: OnClient = lambda event: None
    client_configs: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    clock: LoadClock = field(default_factory=LoadClock)
    calls: Calls = field(default_factory=Calls)

    def producer_configs(self, lane: LaneSpec) -> dict[str, object]:
        """librdkafka's configuration of the lane's producers, the keys for a secured listener included.

        What the experiment says goes before the keys that the lane gives, and those before the harness's own. There is
        no `transactional.id`.
        """
        configs = {
            "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
            "linger.ms": LINGER_MS,
            # A producer that asks for a topic's metadata would create the topic if brokers allow it.
            "allow.auto.create.topics": False,
            **lane.producer_configs,
            "bootstrap.servers": self.bootstrap_servers,
            "acks": lane.acks,
            "enable.idempotence": lane.idempotence,
            "max.in.flight.requests.per.connection": lane.max_in_flight,
            # Brokers are broken on purpose: the errors that the client would print are in the history.
            "log_level": 0,
        }
        if lane.transactional is not None:
            timeout_ms = lane.transactional.timeout_ms
            configs["transaction.timeout.ms"] = timeout_ms
            # Records time out before their transaction.
            configs["message.timeout.ms"] = min(int(str(configs["message.timeout.ms"])), timeout_ms)
            # Without a logger, the client prints that it was fenced, whatever its log_level is.
            configs["logger"] = _SILENT
        return {**configs, **self.secured(lane)}

    def secured(self, lane: LaneSpec) -> Mapping[str, str]:
        """The keys for a secured listener, as the lane's client has them."""
        client = parse_client(lane.client)
        if client is None or not self.client_configs:
            return self.client_configs
        if client.kind.secured is None:
            raise UsageFailure(f"lane {lane.lane}: {client} can't connect to a secured listener here")
        return client.kind.secured(self.client_configs)

    def start(
        self,
        lane: LaneSpec,
        role: str,
        name: str,
        settings: Mapping[str, object],
        configs: Mapping[str, object],
        *,
        command: Sequence[str] = (),
        may_end: bool = False,
    ) -> Start:
        """A function that starts a process of the lane's client in this role, and passes its events to a handler.

        `name`: its `client.id`, also in messages. `settings`: what the order `begin` says beside what all roles have.
        `configs`: of the client's library, beside those for a secured listener. `command`: instead of the client's
        usual command; the client that runs in this process needs one. `may_end`: see `SupervisedProcess`.
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
            "configs": {**configs, **self.secured(lane)},
        }
        log = self.tables.run_directory / LOGS_FOLDER / f"client-{name}-{role}.log"
        log.parent.mkdir(exist_ok=True)

        def started(handler: EventHandler) -> SupervisedProcess:
            return SupervisedProcess(
                command or ([] if client is None else client.command),
                begin,
                handler,
                name=name if client is None else f"{name}, {client}",
                on_notice=self.on_notice,
                on_ready=lambda found, version, timeouts: self.on_client(
                    ClientStarted(lane=lane.lane, role=role, client=found, version=version, timeouts=timeouts)
                ),
                on_problem=lambda process, problem: self.on_client(
                    ClientFailed(lane=lane.lane, role=role, problem=problem, last_lines=process.last_lines)
                ),
                version="" if client is None else client.version,
                may_end=may_end,
                log=log,
            )

        return started
