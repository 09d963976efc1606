"""The properties of brokers, controllers and ZooKeeper servers: a node's configs override those in defaults.toml.

A default that a version of Kafka does not know is left out for that version.
"""

from collections.abc import Mapping

from kafka_chaos.contract.lane.configuration import config_text
from kafka_chaos.contract.lane.metadata import KRAFT, ZOOKEEPER
from kafka_chaos.faults.cluster import CLIENT_PORT as CLIENT_PORT
from kafka_chaos.faults.cluster import NETWORK_PORT as NETWORK_PORT
from kafka_chaos.faults.storage.remote_store import REMOTE_STORE
from kafka_chaos.harness.cluster.configuration.keys import DEFAULTS, known_keys
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.cluster.containers.versions import KafkaVersion
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.security import PLAINTEXT

REPLICATION_PORT = 9092
CONTROL_PORT = 9091
ZOOKEEPER_PORT = 2181
CONTROLLER_ID_BASE = 100
"""A dedicated KRaft controller has the node id 100 plus its number, which is above the ids of brokers."""
BROKER_DATA = "/var/lib/kafka"
SECOND_BROKER_DATA = "/var/lib/kafka-2"
LOG_DIRECTORIES = (BROKER_DATA, SECOND_BROKER_DATA)
ZOOKEEPER_DATA = "/var/lib/zookeeper"
PROPERTIES_FILE = "/etc/kafka-chaos/server.properties"
CHECKPOINT_INTERVAL = "replica.high.watermark.checkpoint.interval.ms"
"""A key that defaults.toml sets to 1 s. Brokers before 0.11 keep Kafka's 5 s: they truncate logs to checkpoints."""
# Keys that other modules look up:
GROUP_SESSION_TIMEOUT = "group.consumer.session.timeout.ms"
SHARE_DELIVERY_LIMIT = "group.share.delivery.count.limit"
SHARE_STATE_PARTITIONS = "share.coordinator.state.topic.num.partitions"
SHARE_SHORTEST_LOCK = "group.share.min.record.lock.duration.ms"


def broker_properties(spec: ClusterLayout, node: Node, version: KafkaVersion, configs: Mapping[str, object]) -> str:
    """The server.properties of a broker with ZooKeeper. `configs` are for all brokers, such as the protocol that
    mixed versions share: they override the defaults, and the layout's configs override them. `owned` overrides all."""
    owned = {
        "broker.id": str(node.number),
        "zookeeper.connect": zookeeper_connect(spec),
        **_listeners(spec, node),
        "log.dirs": ",".join(LOG_DIRECTORIES[: spec.log_directories]),
    }
    # A KRaft controller, to which a cluster can migrate, does not know this listener: it uses the replication port.
    if spec.oldest.has_control_plane and not spec.migration_controllers:
        owned["control.plane.listener.name"] = "CONTROL"
        owned["listeners"] += f",CONTROL://0.0.0.0:{CONTROL_PORT}"
        owned["advertised.listeners"] += f",CONTROL://{node.name}:{CONTROL_PORT}"
    defaults = {**_defaults(spec, "brokers_with_zookeeper", version), **_tiered_properties(spec)}
    if not version.at_least("0.11"):
        defaults.pop(CHECKPOINT_INTERVAL, None)
    return _file_text({**defaults, **_value_texts({**configs, **_layout_configs(spec, node)}), **owned})


def kraft_properties(spec: ClusterLayout, node: Node, version: KafkaVersion, configs: Mapping[str, object]) -> str:
    """The server.properties of a KRaft node: a broker, a controller, or a broker that is a controller, too.

    `configs`, which are for this node alone, override the layout's; `owned` overrides all. Controllers get the
    brokers' configs, too, since some of them, such as `auto.leader.rebalance.enable`, are for the controller.
    """
    is_broker, quorum = node.role == "broker", voters(spec)
    roles = (node.role, "controller") if is_broker and node.number in quorum else (node.role,)
    owned = {
        "node.id": str(node.number),
        "process.roles": ",".join(roles),
        **quorum_properties(quorum),
        "log.dirs": ",".join(LOG_DIRECTORIES[: spec.log_directories if is_broker else 1]),
    }
    control_listeners = [f"CONTROL://{node.name}:{CONTROL_PORT}"] if "controller" in roles else []
    if is_broker:
        owned |= _listeners(spec, node)
        owned["listeners"] = ",".join([owned["listeners"], *control_listeners])
    else:
        owned |= {**DEFAULTS["listener"][PLAINTEXT], "listeners": ",".join(control_listeners)}
    tiered = _tiered_properties(spec) if is_broker else {}
    texts = _value_texts({**_layout_configs(spec, node), **configs})
    return _file_text({**_defaults(spec, "kraft", version), **tiered, **texts, **owned})


def voters(spec: ClusterLayout) -> dict[int, str]:
    """The host names of the controllers of a layout in KRaft mode, by node id."""
    if spec.controllers:
        return {CONTROLLER_ID_BASE + n: node_name("controller", n) for n in range(1, spec.controllers + 1)}
    return {number: node_name("broker", number) for number in range(1, spec.voters + 1)}


def zookeepers(spec: ClusterLayout) -> list[str]:
    """The host names of ZooKeeper's servers."""
    return [node_name("zookeeper", number) for number in range(1, spec.metadata_servers + 1)]


def zookeeper_connect(spec: ClusterLayout) -> str:
    """The addresses of ZooKeeper's servers on the cluster's network."""
    return ",".join(f"{name}:{ZOOKEEPER_PORT}" for name in zookeepers(spec))


def quorum_properties(voters: Mapping[int, str]) -> dict[str, str]:
    """The properties by which a node finds the controllers; `voters`: their host names by node id."""
    return {
        "controller.quorum.voters": ",".join(f"{voter}@{name}:{CONTROL_PORT}" for voter, name in voters.items()),
        "controller.listener.names": "CONTROL",
    }


def _layout_configs(spec: ClusterLayout, node: Node) -> dict[str, object]:
    return {**spec.broker_configs, **spec.configs_of.get(node.number, {})}


def _listeners(spec: ClusterLayout, node: Node) -> dict[str, str]:
    """The properties of every broker's listeners: for clients on a published port, for clients in containers of the
    cluster's network, and for other brokers.

    Clients in containers get the node's address instead of its name, since Docker forgets names of containers that are
    down: a client would fail to resolve the name, while in a real network it would fail to connect.
    """
    secured = DEFAULTS["listener"][spec.security]
    listeners = {"CLIENT": CLIENT_PORT, "NETWORK": NETWORK_PORT, "REPLICATION": REPLICATION_PORT}
    advertised = {
        "CLIENT": node.client_address,
        "NETWORK": f"{node.address}:{NETWORK_PORT}",
        "REPLICATION": f"{node.name}:{REPLICATION_PORT}",
    }
    return {
        "listeners": ",".join(f"{name}://0.0.0.0:{port}" for name, port in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
        **secured,
        # The listener for containers has the same keys, with its own name in them.
        **{key.replace(".client.", ".network."): value for key, value in secured.items()},
        "inter.broker.listener.name": "REPLICATION",
    }


def _defaults(spec: ClusterLayout, group: str, version: KafkaVersion) -> dict[str, str]:
    """The defaults of all brokers and of a `group` of defaults.toml, as far as this version knows the keys. Kafka's own
    topics get `internal_replicas`. A secured cluster enforces access control lists, since its clients have names."""
    replicas = str(spec.internal_replicas)
    replicated = {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": str(min(2, spec.internal_replicas)),
    }
    keys, defaults = known_keys("broker", version.number), {**DEFAULTS["brokers"], **DEFAULTS[group], **replicated}
    known_defaults = {key: value for key, value in defaults.items() if key in keys}
    if spec.security == PLAINTEXT:
        return known_defaults
    authorizer = DEFAULTS["authorizers"][KRAFT if group == "kraft" else ZOOKEEPER]
    return {**known_defaults, **DEFAULTS["secured"], "authorizer.class.name": authorizer}


def _tiered_properties(spec: ClusterLayout) -> dict[str, str]:
    """The properties of brokers with tiered storage. They load the store's plugin from the store's volume."""
    if not spec.tiered_storage:
        return {}
    return {
        **DEFAULTS["tiered"],
        "remote.log.storage.manager.class.path": f"{REMOTE_STORE}/classes/",
        "rsm.config.folder": REMOTE_STORE,
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(spec.internal_replicas),
    }


def zookeeper_properties(spec: ClusterLayout) -> str:
    """The configuration file of a ZooKeeper server, alone or in an ensemble."""
    values = {"dataDir": ZOOKEEPER_DATA, "clientPort": str(ZOOKEEPER_PORT), **DEFAULTS["zookeeper"]}
    if spec.metadata_servers > 1:
        values |= DEFAULTS["zookeeper_ensemble"]
        values |= {f"server.{number}": f"{name}:2888:3888" for number, name in enumerate(zookeepers(spec), start=1)}
    return _file_text(values)


def node_name(role: str, number: int) -> str:
    """The host name of a broker, a KRaft controller or a ZooKeeper server on the cluster's network."""
    return f"{role}-{number}"


def _value_texts(configs: Mapping[str, object]) -> dict[str, str]:
    return {key: config_text(value) for key, value in configs.items()}


def _file_text(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())
