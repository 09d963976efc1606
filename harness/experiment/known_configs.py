"""The effect of brokers' and topics' configuration on a lane, and the keys whose effect the model does not know.

The keys themselves are classified in contract/lane/configuration.toml.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure, quoted
from kafka_chaos.contract.lane.configuration import config_text, risky_keys
from kafka_chaos.contract.lane.lanes import InternalTopic, Lane
from kafka_chaos.contract.lane.recovery import DAY_MS
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout

SHORTEST_RETENTION_MS = 3_600_000
"""A topic with at least this retention still has all its records when the run ends."""
LEADER_REBALANCE = "auto.leader.rebalance.enable"
TOMBSTONES = "delete.retention.ms"
UNCLEAN = "unclean.leader.election.enable"
_REMOVAL_CONFIGS = {
    "log.retention.ms": ("retention.ms", -1),
    "log.retention.bytes": ("retention.bytes", -1),
    "log.cleanup.policy": ("cleanup.policy", "delete"),
}
"""For each key of brokers that lets records be removed: the topic's key, and the default on this project's brokers."""

Configs = Mapping[str, object]


def cleanup_policy_of(configs: Configs) -> str | None:
    """The lane's `cleanup_policy` for a topic with these configs; None if they keep all records during a run."""
    retention_ms, retention_bytes = number_in(configs, "retention.ms", -1), number_in(configs, "retention.bytes", -1)
    retains_all = (retention_ms < 0 or retention_ms >= SHORTEST_RETENTION_MS) and retention_bytes < 0
    policies = sorted(policy.strip() for policy in str(configs.get("cleanup.policy", "delete")).split(","))
    return None if policies == ["delete"] and retains_all else ",".join(policies)


def _removal_configs(broker: Configs) -> dict[str, object]:
    """A broker's configs for the removal of records, under the names of the topic's keys."""
    return {name: broker.get(key, default) for key, (name, default) in _REMOVAL_CONFIGS.items()}


def _sole_size_limit(topic: Configs, brokers: Sequence[Configs]) -> int | None:
    """The topic's `retention.bytes`, if it limits the size and nothing else lets records be removed during a run."""
    size = number_in(topic, "retention.bytes", -1)
    policies = [cleanup_policy_of({**_removal_configs(broker), **topic, "retention.bytes": -1}) for broker in brokers]
    return size if size >= 0 and not any(policies) else None


def brokers_configs(cluster: ClusterLayout) -> list[Configs]:
    """The configs that the experiment sets for each broker, and last the configs of dedicated controllers, if any."""
    own = [cluster.configs_of.get(broker, {}) for broker in range(1, cluster.brokers + 1)]
    return [{**cluster.broker_configs, **configs} for configs in (*own, *([{}] if cluster.controllers else []))]


def lane_settings(
    topic: Configs, cluster: ClusterLayout, replicas: int, *, has_group: bool, transactional: bool
) -> dict[str, Any]:
    """The keys of a `Lane` that the configs of its topic and brokers decide.

    If brokers differ, the value that protects records least counts. `replicas`: the lane's replication factor. Internal
    topics are predicted with the same factor, unless `consumer_offsets` or `transaction_state` has another one.
    """
    brokers = brokers_configs(cluster)
    flush_all = all(number_in(broker, "log.flush.interval.messages", 0) == 1 for broker in brokers)

    def replication_factor(key: str) -> int | None:
        """An internal topic's replication factor; None, if it is the lane's factor and no broker sets it."""
        default = cluster.internal_replicas if cluster.at_least("0.11") else replicas
        smallest = min(number_in(broker, key, default) for broker in brokers)
        return None if smallest == replicas and not any(key in broker for broker in brokers) else smallest

    settings: dict[str, Any] = {
        "flushes": number_in(topic, "flush.messages", int(flush_all)) == 1,
        "retention_bytes": _sole_size_limit(topic, brokers),
        "delete_retention_ms": number_in(
            topic, TOMBSTONES, min(number_in(broker, "log.cleaner.delete.retention.ms", DAY_MS) for broker in brokers)
        ),
    }
    if has_group:
        unclean_by_default = not cluster.at_least("0.11")  # KIP-106
        offsets_topic = InternalTopic(
            replication_factor=replication_factor("offsets.topic.replication.factor"),
            min_insync_replicas=min(number_in(broker, "min.insync.replicas", 1) for broker in brokers),
            unclean_leader_election=any(_is_true(broker, UNCLEAN, unclean_by_default) for broker in brokers),
            flushes=flush_all,
        )
        settings["consumer_offsets"] = offsets_topic if offsets_topic != InternalTopic() else None
    if transactional:
        # `__transaction_state` never has unclean elections, whatever the brokers' default is (TransactionStateManager).
        state_topic = InternalTopic(
            replication_factor=replication_factor("transaction.state.log.replication.factor"),
            min_insync_replicas=min(number_in(broker, "transaction.state.log.min.isr", 1) for broker in brokers),
            flushes=flush_all,
        )
        settings["transaction_state"] = state_topic if state_topic != InternalTopic() else None
        verified = all(_is_true(broker, "transaction.partition.verification.enable", True) for broker in brokers)
        settings["verifies_transactions"] = None if verified else False
    return settings


def leader_rebalance_stops(cluster: ClusterLayout, count: int) -> tuple[str, ...]:
    """A `stop` for each of `count` faults if leaders move back after a fault (auto.leader.rebalance.enable), else none.

    The model moves no leader back by itself. A `stop` stands for such a move, since it begins with an orderly move.
    """
    move_back = any(_is_true(configs, LEADER_REBALANCE, False) for configs in brokers_configs(cluster))
    return ("stop",) * count if move_back else ()


def refused_broker_keys(cluster: ClusterLayout, lane: Lane) -> Iterator[tuple[str, str]]:
    """The brokers' keys whose values no prediction for the lane covers, each with a message."""
    for configs in brokers_configs(cluster):
        yield from refused_keys("broker", configs, lane, with_recovery=True)
        if lane.cleanup_policy is None and (policy := cleanup_policy_of(_removal_configs(configs))) is not None:
            message = f"brokers may remove records of lane {lane.lane} during the run"
            key = next(key for key, value in configs.items() if cleanup_policy_of(_removal_configs({key: value})))
            yield key, f"{message}: the lane needs cleanup_policy: {policy}"


def refused_keys(kind: str, configs: Configs, lane: Lane, *, with_recovery: bool = False) -> Iterator[tuple[str, str]]:
    """The keys of a `broker`, `topic`, `producer` or `consumer` whose values no prediction covers, with messages.

    `with_recovery`: whether anomalies of recovery are judged, too. For these, the harness has to know all time-outs.
    """
    anomalies = (*lane.anomalies, *(lane.recovery_anomalies if with_recovery else ()))
    return ((key, message) for key, message in risky_keys(kind, configs, anomalies) if key not in lane.assume)


def number_in(configs: Configs, key: str, default: int) -> int:
    """The whole number that a key is set to, or `default`; raises `UsageFailure`."""
    try:
        return int(str(configs.get(key, default)))
    except ValueError:
        raise UsageFailure(f"{key}: {quoted(configs[key])}: expected a whole number") from None


def _is_true(configs: Configs, key: str, default: bool) -> bool:
    return config_text(configs.get(key, default)).strip().lower() == "true"
