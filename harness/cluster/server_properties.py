"""What a broker and a ZooKeeper server are started with: the defaults of a test cluster, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_chaos.harness.cluster.security import PLAINTEXT, listener_properties

CLIENT_PORT = 9094
REPLICATION_PORT = 9092
CONTROL_PORT = 9091
ZOOKEEPER_PORT = 2181

BROKER_DATA = "/var/lib/kafka"
SECOND_BROKER_DATA = "/var/lib/kafka-2"
ZOOKEEPER_DATA = "/var/lib/zookeeper"
PROPERTIES_FILE = "/etc/kafka-chaos/server.properties"

BROKER_DEFAULTS: Mapping[str, str] = {
    # Half of Kafka's 18 s default three times over: a failure is noticed within a test's patience.
    "zookeeper.session.timeout.ms": "3000",
    "zookeeper.connection.timeout.ms": "30000",
    # Topics are made with the experiment's own settings, or not at all.
    "auto.create.topics.enable": "false",
    # Leaders move only when a fault or a step moves them.
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Nothing is deleted for its age during a run, unless a topic says so.
    "log.retention.ms": "-1",
    # A killed container's address vanishes and its peers hang in SYN until this time-out (10 s by default), which
    # holds up LeaderAndIsr handling; experiments that show that set it back.
    "socket.connection.setup.timeout.ms": "1000",
    "socket.connection.setup.timeout.max.ms": "1000",
    # No JMX port is open: hundreds of MBeans would be registered for nobody at every start.
    "auto.include.jmx.reporter": "false",
    # Preallocated twice per partition, and read with every file of a stopped broker: 10 MiB by default, where 3 MiB
    # are enough for a segment of 1 GiB.
    "log.index.size.max.bytes": "3145728",
    # 128 MiB by default, of a 300 MiB heap.
    "log.cleaner.dedupe.buffer.size": "8388608",
}


def broker_properties(
    broker: int,
    *,
    brokers: int,
    host_port: int,
    zookeepers: Sequence[str],
    configs: Mapping[str, object],
    log_directories: int = 1,
    security: str = PLAINTEXT,
) -> str:
    """The text of a broker's server.properties; `configs` go over the defaults."""
    replicas = str(min(3, brokers))
    host = broker_name(broker)
    owned = {
        "broker.id": str(broker),
        "log.dirs": ",".join((BROKER_DATA, SECOND_BROKER_DATA)[:log_directories]),
        "zookeeper.connect": ",".join(f"{name}:{ZOOKEEPER_PORT}" for name in zookeepers),
        "listeners": f"CLIENT://0.0.0.0:{CLIENT_PORT},REPLICATION://0.0.0.0:{REPLICATION_PORT},"
        f"CONTROL://0.0.0.0:{CONTROL_PORT}",
        "advertised.listeners": f"CLIENT://127.0.0.1:{host_port},REPLICATION://{host}:{REPLICATION_PORT},"
        f"CONTROL://{host}:{CONTROL_PORT}",
        **listener_properties(security),
        "inter.broker.listener.name": "REPLICATION",
        "control.plane.listener.name": "CONTROL",
    }
    sized = {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
    }
    return _text({**BROKER_DEFAULTS, **sized, **{key: config_text(value) for key, value in configs.items()}, **owned})


def zookeeper_properties(*, zookeepers: Sequence[str]) -> str:
    """The text of a ZooKeeper server's configuration, alone or in an ensemble."""
    values = {
        "dataDir": ZOOKEEPER_DATA,
        "clientPort": str(ZOOKEEPER_PORT),
        # The resolution of session expiry: sessions of 1 s and more are granted as asked for.
        "tickTime": "500",
        "minSessionTimeout": "1000",
        "maxSessionTimeout": "120000",
        "maxClientCnxns": "0",
        "4lw.commands.whitelist": "*",
    }
    if len(zookeepers) > 1:
        values |= {"initLimit": "20", "syncLimit": "10"}
        values |= {f"server.{index}": f"{name}:2888:3888" for index, name in enumerate(zookeepers, start=1)}
    return _text(values)


def broker_name(broker: int) -> str:
    """The host name of a broker on the cluster's network."""
    return f"broker-{broker}"


def zookeeper_name(number: int) -> str:
    """The host name of a ZooKeeper server on the cluster's network."""
    return f"zookeeper-{number}"


def _text(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


def config_text(value: object) -> str:
    """A configuration value as Kafka's properties write it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
