"""Loads without brokers: their settings, a mock of a cluster, and the adapter of Python's clients."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.events import ClientFailed
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.client_process import EventHandler, SupervisedProcess
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables


def load_of(folder: Path, *lanes: LaneSpec, **given: Any) -> LoadSettings:
    """The settings of a load of these lanes that writes there; `given` replaces the usual ones."""
    usual = {"bootstrap_servers": "127.0.0.1:1", "workload": WorkloadSpec(settle_timeout=0.1), "on_notice": print}
    return LoadSettings(tables=LoadTables(folder, lanes), **{**usual, **given})


def running(producing: Any) -> tuple[threading.Thread, threading.Event]:
    """The thread in which a lane's producers send, and the event whose end ends that."""
    sending = threading.Event()
    sending.set()
    thread = threading.Thread(target=producing.run, args=(sending,), daemon=True)
    thread.start()
    return thread, sending


@contextmanager
def mock_cluster(*topics: str) -> Iterator[tuple[str, Producer]]:
    """The address of librdkafka's mock of a cluster that has these topics, and a producer."""
    owner = new_client(Producer, {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = [owner.list_topics(topic, timeout=20).brokers.values() for topic in topics][-1]
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers), owner
    owner.close()


def adapter(
    role: str, lane: str, servers: str, problems: list[str] | None = None, **settings: Any
) -> Callable[[EventHandler], SupervisedProcess]:
    """Starts the adapter with librdkafka for the lane's topic; `problems` takes those of the process."""
    of_producer = {"producer_id": 0, "first_partition": 0, "record_size": 64, "acks": "all", "idempotence": True}
    of_producer |= {"max_in_flight": 5, "linger_ms": 5, "delivery_timeout_ms": 60_000}
    noted = [] if problems is None else problems
    common = {"role": role, "lane": lane, "topic": lane, "partitions": 2, "bootstrap_servers": servers}
    order = {**common, "client_id": f"{lane}-0", "configs": {}, **of_producer, **settings}
    return lambda handler: SupervisedProcess(
        command_of("kafka_chaos.harness.clients.python_client", "librdkafka"),
        order,
        handler,
        name=role,
        on_notice=print,
        emit=lambda event: isinstance(event, ClientFailed) and noted.append(event.problem),
    )
