"""An existing cluster's topics are verified: nothing is injected or changed, and nothing records where it is."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, Producer

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.lane.lanes import InternalTopic, Lane
from kafka_chaos.harness.attached import cluster as attached_cluster
from kafka_chaos.harness.attached.nodes_file import load_nodes
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.clients.java_client import read_client_config
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.lane_specs import OWNED_CLIENT_KEYS
from kafka_chaos.harness.run import attach
from kafka_chaos.harness.run.attach import ClusterAccess, run_attached
from kafka_chaos.harness.workload.clients.partitions import messages_between
from tests.clusters import await_known
from tests.harness.attached.shell_cluster import nodes_file

TEXT = """\
name: staging
workload: {{rate: 200, duration: 2}}
lanes:
  - {{lane: orders, topic: {topic}, acks: all, min_insync_replicas: 2}}
"""
SECRET = "hunter2-is-secret"


def attached(cluster: Cluster) -> ClusterAccess:
    # A password is passed on to the clients; on a plaintext listener they have no use for it.
    return ClusterAccess(cluster.bootstrap_servers, {"sasl.username": "me", "sasl.password": SECRET})


@pytest.mark.cluster
def test_existing_topics_conform_and_the_records_of_others_before_do_not_matter(
    cluster: Cluster, admin: ClusterAdmin, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(min_insync_replicas=2)
    others = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(50):
        others.produce(topic, value=f"not ours {number}")
    assert others.flush(30) == 0
    before = admin.partitions(topic)

    experiment = parse_experiment(TEXT.format(topic=topic), "a.yaml")
    result = run_attached(experiment, attached(cluster), root=tmp_path, engine=Engine.DUCKDB)

    lane = result.verdict.lane("orders")
    assert result.verdict.verdict is Verdict.CONFORMS, lane.reasons
    assert lane.produced == lane.acknowledged == lane.consumed > 100
    wait_until(lambda: admin.partitions(topic) == before, "the topic to be as it was", timeout=30)
    assert admin.end_offsets(topic, [0]) == {0: 50 + lane.produced}
    assert (result.path / "report.html").is_file()
    for path in result.path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert SECRET.encode() not in content, path
            for address in cluster.bootstrap_servers.split(","):
                assert address.encode() not in content, path


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("min_insync_replicas: 2", "min_insync_replicas: 1", "lanes[0].min_insync_replicas: 1, but the topic"),
        ("acks: all", "acks: all, unclean_leader_election: true", "unclean_leader_election: True, but the topic"),
        ("acks: all", "acks: all, cleanup_policy: compact", "cleanup_policy: 'compact', but the topic"),
        ("name: staging", "name: staging\ncluster: {metadata_mode: kraft}", "attached cluster's mode is zookeeper"),
    ],
)
def test_a_lane_that_is_not_what_its_topic_is_is_refused(
    cluster: Cluster, attached_topic: str, tmp_path: Path, old: str, new: str, expected: str
) -> None:
    experiment = parse_experiment(TEXT.format(topic=attached_topic).replace(old, new), "a.yaml")
    with pytest.raises(UsageFailure) as refusal:
        run_attached(experiment, attached(cluster), root=tmp_path)
    assert expected in str(refusal.value)
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


@pytest.fixture(scope="module")
def attached_topic(cluster: Cluster, admin: ClusterAdmin) -> str:
    admin.create_topic("attached", replica_assignment=[[1, 2, 3]], configs={"min.insync.replicas": 2})
    admin.await_full_isr(["attached"])
    await_known(cluster, "attached")
    return "attached"


@pytest.mark.parametrize(
    ("settings", "added", "expected"),
    [
        ("acks: all", "schedule:\n  - {fault: kill, target: controller, at: 1}\n",
         "broken only with --nodes and --allow-faults"),
        ("acks: all, leader: 1", "steps: {target: leader(orders), steps: [append]}\n",
         "a lock-step phase need this project"),
        ("acks: all, leader: 1", "", "an attached cluster is not changed"),
        ("acks: all, client: java 4.3.1, share: {}", "cluster: {metadata_mode: kraft}\n", "attached cluster is not"),
        ("acks: all, topic_configs: {retention.ms: -1}", "", "an attached cluster is not changed"),
    ],
)  # fmt: skip
def test_what_would_break_or_change_the_cluster_is_refused(
    tmp_path: Path, settings: str, added: str, expected: str
) -> None:
    text = TEXT.format(topic="orders").replace("acks: all", settings) + added
    with pytest.raises(UsageFailure, match=expected):
        run_attached(parse_experiment(text, "a.yaml"), ClusterAccess("127.0.0.1:1"), root=tmp_path)


def test_a_node_that_is_not_named_is_never_broken(tmp_path: Path) -> None:
    text = TEXT.format(topic="orders") + "schedule: [{fault: kill, target: leader(orders), at: 1}]\n"
    attached = ClusterAccess("127.0.0.1:1", {}, load_nodes(nodes_file(tmp_path)), ("broker-1",))
    with pytest.raises(UsageFailure, match=r"leader\(orders\) may be broker-2, which --allow-faults does not name"):
        run_attached(parse_experiment(text, "a.yaml"), attached, root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_cluster_that_does_not_answer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_chaos.harness.run.attach._ANSWER_TIMEOUT", 0.5)
    with pytest.raises(EnvironmentFailure, match="does not answer: check the address given to --attach"):
        run_attached(parse_experiment(TEXT.format(topic="x"), "a.yaml"), ClusterAccess("127.0.0.1:1"), root=tmp_path)


def test_faults_of_others_are_predicted_for() -> None:
    text = TEXT.format(topic="orders")
    (calm,) = parse_experiment(text, "a.yaml").lanes
    (rough,) = parse_experiment(text + "outside_faults: [kill, pause]\n", "a.yaml").lanes
    assert calm[2].faults == ()
    assert rough[2].faults == ("kill", "pause")
    with pytest.raises(UsageFailure, match=r"a\.yaml:5: outside_faults\[0\]: 'bomb' is not a fault kind"):
        parse_experiment(text + "outside_faults: [bomb]\n", "a.yaml")


def test_a_client_config_is_read_and_never_shown_and_a_bad_one_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# how to log in\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b\n")
    configs = read_client_config(path)
    assert configs == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    assert not [shown for shown in ("a=b", "host") if shown in repr(ClusterAccess("host:9092", configs))]
    for line, expected in (
        ("sasl.password", ":1: expected key=value"),
        ("acks=1", ":1: acks: set by --attach or the lane"),
    ):
        path.write_text(line)
        with pytest.raises(UsageFailure, match=expected):
            read_client_config(path, owned=OWNED_CLIENT_KEYS)


def test_the_command_attaches_with_the_client_s_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, properties = tmp_path / "a.yaml", tmp_path / "client.properties"
    experiment.write_text(TEXT.format(topic="orders"))
    properties.write_text("security.protocol=SSL\n")
    refuse = Mock(side_effect=UsageFailure("not today"))
    monkeypatch.setattr("kafka_chaos.harness.run.attach.run_attached", refuse)
    arguments = ["run", str(experiment), "--attach", "broker:9093", "--client-config", str(properties)]
    result = CliRunner().invoke(cli, arguments)
    assert str(result.exception) == "not today"
    refuse.assert_called_once()
    assert refuse.call_args.args[1] == ClusterAccess("broker:9093", {"security.protocol": "SSL"})
    for option in ("--client-config", "--nodes", "--allow-faults"):
        alone = CliRunner().invoke(cli, ["run", str(experiment), option, str(properties)])
        assert str(alone.exception) == f"{option}: expected together with --attach"
    for option in ("--nodes", "--allow-faults"):
        half = CliRunner().invoke(cli, [*arguments, option, "x"])
        assert str(half.exception) == "--nodes and --allow-faults: nothing is broken without both"


CONFIGS_TEXT = (
    "name: staging\ncluster: {{{cluster}}}\nlanes: [{{lane: orders, transactional: {{size: 2}}{lane}}}]\n{more}"
)
USUAL = {
    "auto.leader.rebalance.enable": "true", "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.partition.verification.enable": "true", "offsets.retention.minutes": "10080",
}  # fmt: skip
READ: dict[str, str] = {"broker.rack": "here"}


def read(
    monkeypatch: pytest.MonkeyPatch,
    *brokers: dict[str, str | None],
    state: int = 0,
    client_configs: dict[str, str] | None = None,
    lane: str = "",
    more: str = "",
    cluster: str = "",
) -> Lane:
    """The lane after its brokers were read. `state`: the replicas of __transaction_state, 0 where it is not there."""
    given = dict(enumerate([of_broker and USUAL | of_broker for of_broker in brokers], 7))

    def configuration(kind: Any, name: str) -> dict[str, Any] | None:
        if not name.startswith("__") and not given[int(name)]:
            return None
        entries = {"min.insync.replicas": "1"} if name.startswith("__") else given[int(name)]
        return {
            key: SimpleNamespace(value=value, is_default=USUAL.get(key) == value, is_sensitive=value is None)
            for key, value in entries.items()
        }

    admin: Any = SimpleNamespace(
        configuration=configuration,
        live_brokers=lambda: set(given),
        partitions=lambda _: {0: SimpleNamespace(replicas=tuple(range(state)))} if state else {},
    )
    experiment = parse_experiment(CONFIGS_TEXT.format(lane=lane, more=more, cluster=cluster), "a.yaml")
    found, unknown = attached_cluster.with_brokers_configuration(experiment, client_configs or {}, admin)
    assert list(unknown.configurations) == [f"of broker {broker}" for broker, configs in given.items() if not configs]
    ((phase, _, known),) = found.lanes
    assert phase.uninjected_faults(found.cluster.as_layout()) == known.faults
    return known


def test_brokers_say_how_coordinators_logs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = read(monkeypatch, READ, {"transaction.state.log.min.isr": "3"}, READ)
    assert lane.transaction_state == InternalTopic(replication_factor=3, min_insync_replicas=2)
    assert lane.verifies_transactions is None
    # A topic that is there is as it was made; one broker without verification is enough.
    assert read(monkeypatch, READ, state=1).transaction_state == InternalTopic(replication_factor=1)
    unverified = {"transaction.partition.verification.enable": "false"}
    assert read(monkeypatch, READ, unverified).verifies_transactions is False


def test_what_no_prediction_knows_is_refused_or_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: dict[str, str | None] = {"producer.id.expiration.ms": "1000"}
    with pytest.raises(UsageFailure, match=r"cluster\.assume: broker 8: producer\.id\.expiration\.ms=1000"):
        read(monkeypatch, READ, configs)
    lane = read(monkeypatch, READ, configs, cluster="assume: [producer.id.expiration.ms]")
    assert "duplicate" in lane.unjudged
    # A broker hides what Kafka does not define, and nothing in it reads that; of a newer Kafka, it is not hidden.
    assert not read(monkeypatch, READ, {"kraft.cluster.id": None}).unjudged
    with pytest.raises(UsageFailure, match=r"kraft\.cluster\.id=x: the model does not know it"):
        read(monkeypatch, READ, {"kraft.cluster.id": "x"})
    with pytest.raises(UsageFailure, match=r"--client-config: auto\.offset\.reset=latest"):
        read(monkeypatch, READ, client_configs={"auto.offset.reset": "latest"})


def test_a_log_that_was_not_read_to_its_end_does_not_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(lane: Any, configs: Any, starts: Any, ends: Any, folder: Path) -> None:
        (folder / "part-000001.parquet").parent.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(attach, "_read_log", read)
    monkeypatch.setattr(attach._Stages, "_load", Mock())
    run = Mock(experiment=parse_experiment(TEXT.format(topic="orders"), "a.yaml"), directory=Mock(path=tmp_path))
    with pytest.raises(KeyboardInterrupt):
        attach._Stages(run, ClusterAccess(""), Mock(), None, Mock()).gather_evidence()
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_read_to_its_end_from_what_retention_kept() -> None:
    def message(offset: int, error: KafkaError | None = None) -> Mock:
        return Mock(offset=lambda: offset, partition=lambda: 0, error=lambda: error)

    at_end = KafkaError(KafkaError._PARTITION_EOF)
    consumer = Mock(get_watermark_offsets=lambda place, timeout: (7, 8))
    consumer.consume.side_effect = [[message(7), message(8, at_end)], [message(8), message(9, at_end)]]
    read = [entry.offset() for entry in messages_between(consumer, "t", {0: 5}, {0: 9})]
    assert (consumer.assign.call_args[0][0][0].offset, read) == (7, [7, 8])
