"""What brokers of an attached cluster are configured with, as far as predictions depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from kafka_chaos.contract.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.contract.lanes import TRANSACTION_STATE
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.configuration.keys import known_keys
from kafka_chaos.harness.experiment.known_configs import REBALANCE, refused_of
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError

_STATE_LOG = "transaction.state.log"
_LEAST: Mapping[str, Callable[[Iterable[str]], str]] = {
    f"{_STATE_LOG}.min.isr": lambda values: min(values, key=int),
    f"{_STATE_LOG}.replication.factor": lambda values: min(values, key=int),
    "transaction.partition.verification.enable": min,
    REBALANCE: max,
}
"""What predictions for topics that are there depend on, and where brokers differ, which of the values promises least:
of texts, `false` is less than `true`."""
_ANSWER_TIMEOUT = 20.0
_MAY_NOT = (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def described(client: AdminClient, kind: ResourceType, name: str) -> Mapping[str, Any] | None:
    """The configuration of a topic or a broker, by key; None where this client may not read it."""
    resource = ConfigResource(kind, name)
    try:
        found: Mapping[str, Any] = client.describe_configs([resource], request_timeout=_ANSWER_TIMEOUT)[
            resource
        ].result()
    except KafkaException as error:
        if error.args[0].code() in _MAY_NOT:
            return None
        what = f"{kind.name.lower()} {name}"
        raise EnvironmentFailure(f"the configuration of {what} can't be read: {error.args[0].str()}") from error
    return found


def given_by(entries: Mapping[str, Any]) -> dict[str, str]:
    """Of what brokers say of a configuration, that which is not Kafka's own default."""
    return {key: entry.value or "" for key, entry in entries.items() if not entry.is_default}


def configured(
    experiment: Experiment, client_configs: Mapping[str, str], admin: ClusterAdmin, client: AdminClient
) -> tuple[Experiment, tuple[str, ...]]:
    """The experiment with what its brokers have, as far as predictions depend on it, and what could not be read. Its
    topics have their own.

    Raises `UsageFailure` for what the model does not know, of brokers or of clients, unless it is assumed.
    """
    found = {broker: described(client, ResourceType.BROKER, str(broker)) for broker in sorted(admin.live_brokers())}
    unread = [f"of broker {broker}" for broker, entries in found.items() if entries is None]
    brokers = {broker: entries for broker, entries in found.items() if entries is not None}
    _refuse_unknown(experiment, client_configs, brokers)
    known = known_keys("broker", experiment.cluster.kafka_version)
    read = {
        key: least(entries[key].value for entries in brokers.values() if key in entries)
        for key, least in _LEAST.items()
        if key in known and any(key in entries for entries in brokers.values())
    }
    if any(lane.transactional for _, lane, _ in experiment.lanes()) and (state := admin.partitions(TRANSACTION_STATE)):
        # It is there: it is as it was made, whatever brokers would make it now.
        read[f"{_STATE_LOG}.replication.factor"] = str(min(len(partition.replicas) for partition in state.values()))
        if kept := described(client, ResourceType.TOPIC, TRANSACTION_STATE):
            read[f"{_STATE_LOG}.min.isr"] = kept["min.insync.replicas"].value
        else:
            unread.append(f"of topic {TRANSACTION_STATE}")
    # What nobody may read is as the experiment has it, but for leaders that move back, as they do by default.
    given = {REBALANCE: "true", **experiment.cluster.broker_configs} if unread else {}
    cluster_spec = experiment.cluster.model_copy(update={"broker_configs": {**given, **read}, "configs_of": {}})
    return experiment.model_copy(update={"cluster": cluster_spec}), tuple(unread)


def _refuse_unknown(
    experiment: Experiment, client_configs: Mapping[str, str], brokers: Mapping[int, Mapping[str, Any]]
) -> None:
    for _, _, lane in experiment.lanes():
        for broker, entries in brokers.items():
            for _, message in refused_of("broker", given_by(entries), lane):
                raise ExperimentError(("cluster", "assume"), f"broker {broker}: {message}")
        for kind in ("producer", "consumer"):
            for _, message in refused_of(kind, client_configs, lane):
                raise UsageFailure(f"--client-config: {message}")
