"""What decides predictions is read from an attached cluster; what no prediction knows there is refused, or assumed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.lanes import InternalTopic, Lane
from kafka_chaos.harness.attached import configuration
from kafka_chaos.harness.experiment.file import parse_experiment

TEXT = "name: staging\ncluster: {{{cluster}}}\nlanes: [{{lane: orders, transactional: {{size: 2}}{lane}}}]\n{more}"
USUAL = {
    "auto.leader.rebalance.enable": "true",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.partition.verification.enable": "true",
    "offsets.retention.minutes": "10080",
}
READ: dict[str, str] = {"broker.rack": "here"}
MAY_NOT: dict[str, str] = {}
NO_CLIENT: Any = None


def read(
    monkeypatch: pytest.MonkeyPatch,
    *brokers: dict[str, str],
    state: int = 0,
    client_configs: dict[str, str] | None = None,
    lane: str = "",
    more: str = "",
    cluster: str = "",
) -> Lane:
    """The lane after its brokers were read. `state`: the replicas of __transaction_state, 0 where it is not there."""
    given = dict(enumerate([of_broker and USUAL | of_broker for of_broker in brokers], 7))

    def described(_: object, kind: Any, name: str) -> dict[str, Any] | None:
        if not name.startswith("__") and not given[int(name)]:
            return None
        entries = {"min.insync.replicas": "1"} if name.startswith("__") else given[int(name)]
        return {key: SimpleNamespace(value=value, is_default=USUAL.get(key) == value) for key, value in entries.items()}

    monkeypatch.setattr(configuration, "described", described)
    admin: Any = SimpleNamespace(
        live_brokers=lambda: set(given),
        partitions=lambda _: {0: SimpleNamespace(replicas=tuple(range(state)))} if state else {},
    )
    experiment = parse_experiment(TEXT.format(lane=lane, more=more, cluster=cluster), "a.yaml")
    found, doubts = configuration.configured(experiment, client_configs or {}, admin, NO_CLIENT)
    assert list(doubts) == [f"of broker {broker}" for broker, configs in given.items() if not configs]
    ((phase, _, known),) = found.lanes()
    assert phase.outside(found.cluster.spec()) == known.faults
    return known


def test_brokers_say_how_coordinators_logs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = read(monkeypatch, READ, {"transaction.state.log.min.isr": "3"}, READ)
    assert lane.transaction_state == InternalTopic(replication_factor=3, min_insync_replicas=2)
    assert lane.verifies_transactions is None


def test_a_topic_that_is_there_is_as_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, READ, state=1).transaction_state == InternalTopic(replication_factor=1)


def test_one_broker_without_verification_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = read(monkeypatch, READ, {"transaction.partition.verification.enable": "false"})
    assert lane.verifies_transactions is False


def test_what_no_prediction_knows_is_refused_or_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {"producer.id.expiration.ms": "1000"}
    with pytest.raises(UsageFailure, match=r"cluster\.assume: broker 8: producer\.id\.expiration\.ms=1000"):
        read(monkeypatch, READ, configs)
    lane = read(monkeypatch, READ, configs, cluster="assume: [producer.id.expiration.ms]")
    assert "duplicate" in lane.assumed
    with pytest.raises(UsageFailure, match=r"--client-config: auto\.offset\.reset=latest"):
        read(monkeypatch, READ, client_configs={"auto.offset.reset": "latest"})


def test_leaders_may_move_back_after_each_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = "outside_faults: [kill, pause]\n"
    assert read(monkeypatch, READ, more=killed).faults == ("kill", "pause", "stop", "stop")
    assert read(monkeypatch, READ).faults == ()
    assert read(monkeypatch, {"auto.leader.rebalance.enable": "false"}, more=killed).faults == ("kill", "pause")


def test_what_may_not_be_read_is_as_the_experiment_says_and_leaders_move_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = "broker_configs: {transaction.state.log.min.isr: 2}"
    lane = read(monkeypatch, MAY_NOT, MAY_NOT, more="outside_faults: [kill]\n", cluster=cluster)
    assert lane.transaction_state == InternalTopic(min_insync_replicas=2)
    assert lane.faults == ("kill", "stop")
