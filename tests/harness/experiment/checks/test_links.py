"""Connections pass links, clocks can be moved, and brokers have disks of their own, only for faults that need it; what
these can't do is refused.
"""

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.links.on_frames import Alter, Answer, Cut, Delay, Drop, FrameFault, Hold, Rate, Repeat, Stale
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.specs import Experiment

EXPERIMENT = """
name: links
cluster: {{{cluster}}}
workload: {{duration: 60}}
lanes: [{{lane: one, acks: 1{lane}}}]
schedule:
{schedule}
"""


def experiment(*faults: str, cluster: str = "brokers: 3", lane: str = "") -> Experiment:
    schedule = "".join(f"  - {{at: 2, duration: 1, {fault}}}\n" for fault in faults)
    return parse_experiment(EXPERIMENT.format(cluster=cluster, schedule=schedule, lane=lane), "links.yaml")


@pytest.mark.parametrize("fault", [Hold, Delay, Rate, Drop, Cut, Answer, Repeat, Alter, Stale])
def test_only_a_fault_that_acts_on_requests_gets_links(fault: type[FrameFault]) -> None:
    assert fault_kinds()[fault.kind] is fault
    layout = experiment(f"fault: {fault.kind}, target: leader(one)").layout
    assert layout.links
    assert layout.described.endswith("every connection through a link")
    assert not experiment("fault: kill, target: leader(one)").layout.links
    assert experiment("fault: kill, target: leader(one)", cluster="links: true").layout.links


@pytest.mark.parametrize(
    ("faults", "cluster", "refusal"),
    [
        (["fault: hold, target: leader(one), api: Produced"], "", r"api: 'Produced' is no Kafka request: .*Produce"),
        (["fault: hold, target: all, lane: two"], "", "lane: there is no lane two; the lanes are one"),
        (["fault: hold, target: all, sender: broker:9"], "", "sender: broker:9: the cluster has 3 brokers"),
        (
            ["fault: hold, target: all, sender: controller:1"],
            "",
            "controller:1: the cluster has 0 dedicated controllers",
        ),
        (["fault: hold, target: zookeeper"], "", "target: zookeeper: ZooKeeper does not speak Kafka's protocol"),
        (["fault: hold, target: all"], ", security: mtls", "fault: hold reads requests, and mtls encrypts them"),
        (["fault: hold, target: all"], ", advertise: ci", "fault: hold can't be done where advertise names another"),
        (["fault: clock-step, target: all, seconds: 9"], ", advertise: ci", "clock-step can't be done where advertise"),
        (
            ["fault: hold, target: all", "fault: partition, target: broker:1, port: replication, direction: in"],
            "",
            "port: replication: connections to the target's listeners pass its link",
        ),
        (["fault: partition, target: all, port: replication", "fault: bomb, target: all"], "", "'bomb' is not a fault"),
    ],
)
def test_what_a_link_cannot_do_is_refused(faults: list[str], cluster: str, refusal: str) -> None:
    with pytest.raises(UsageFailure, match=refusal):
        experiment(*faults, cluster=f"brokers: 3{cluster}")


def test_a_producer_that_never_retries_is_told_nothing_untrue() -> None:
    lane = ", producer_configs: {retries: 0}"
    for fault in ("fault: answer, target: all", "fault: repeat, target: all"):
        with pytest.raises(UsageFailure, match="the producer of one believes an error, since it never retries"):
            experiment(fault, lane=lane)
        experiment(f"{fault}, api: Fetch", lane=lane)


@pytest.mark.parametrize(
    ("fault", "taken", "refused"),
    [
        ("fault: repeat, target: all, side: response, sender: clients", "librdkafka 2.2.0", "java"),
        ("fault: stale, target: all", "librdkafka 2.2.0", "librdkafka 2.0.2"),
    ],
)
def test_clients_of_which_nothing_can_be_predicted_are_refused(fault: str, taken: str, refused: str) -> None:
    experiment(fault, lane=f", client: {taken}")
    with pytest.raises(UsageFailure, match=r"the client of one may .*: expected .*librdkafka"):
        experiment(fault, lane=f", client: {refused}")


def experiment_with_clocks(fault: str, *, lane: str = "", cluster: str = "") -> str:
    return f"""
name: clocks
cluster: {{{cluster}}}
lanes: [{{lane: orders{lane}}}]
schedule: [{{{fault}, target: broker:1, at: 1, duration: 5}}]
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (experiment_with_clocks("fault: clock-step, seconds: -60", lane=", topic_configs: {retention.ms: 60000}"),
         r"schedule\[0\].seconds: 60 s is past the retention.ms of lane orders, 60000: brokers would delete"),
        (experiment_with_clocks("fault: clock-drift, percent: 50", cluster="broker_configs: {log.retention.ms: 2000}"),
         r"schedule\[0\].percent: 2.5 s is past the retention.ms of lane orders, 2000"),
        (experiment_with_clocks("fault: clock-step", lane=", transactional: {timeout_ms: 10000}"),
         r"seconds: 60 s is past the timeout_ms of lane orders, 10000: its coordinator would abort"),
    ],
)  # fmt: skip
def test_clocks_that_would_delete_or_abort_are_refused(given: str, message: str) -> None:
    with pytest.raises(UsageFailure, match=message):
        parse_experiment(given, "clocks.yaml")


@pytest.mark.parametrize(
    ("wanted", "lacking"),
    [
        (ClusterLayout(disk_mib=512), "start it with disk_mib=512"),
        (ClusterLayout(links=True), "start it with links"),
        (ClusterLayout(clocks=True), "start it with clocks"),
    ],
)
def test_a_cluster_that_runs_already_says_what_it_lacks(wanted: ClusterLayout, lacking: str) -> None:
    assert lacking in str(ClusterLayout().missing_extras(wanted))
    assert wanted.missing_extras(wanted) is None
    assert wanted.missing_extras(ClusterLayout()) is None
    assert wanted.satisfies(ClusterLayout())
    assert not ClusterLayout().satisfies(wanted)


@pytest.mark.parametrize(
    "other",
    [ClusterLayout(security="mtls"), ClusterLayout(brokers=5), ClusterLayout(broker_configs={"num.io.threads": 3})],
)
def test_a_cluster_serves_no_experiment_whose_cluster_is_another(other: ClusterLayout) -> None:
    assert not ClusterLayout(links=True).satisfies(other)


DISKS = """
name: disks
cluster: {{{cluster}}}
workload: {{rate: {rate}, record_size: 1000, duration: 60}}
lanes: [{{lane: one, acks: 1}}]
schedule: [{{fault: {fault}, target: "{target}", at: 2}}]
"""


def with_disks(
    *, fault: str = "power-loss", target: str = "leader(one)", rate: int = 10, cluster: str = "brokers: 3"
) -> Experiment:
    return parse_experiment(DISKS.format(fault=fault, target=target, rate=rate, cluster=cluster), "disks.yaml")


@pytest.mark.parametrize("fault", ["power-loss", "freeze-disk", "full-disk", "read-only-disk"])
def test_only_a_fault_that_breaks_disks_gets_them_with_room_for_the_planned_load(fault: str) -> None:
    layout, without = with_disks(fault=fault).layout, with_disks(fault="kill").layout
    assert layout.disk_mib == 4096
    assert layout.described.endswith("each broker with a disk of its own")
    assert without.disk_mib == 0
    assert "disk" not in without.described
    # 60 s × 20,000 records/s × 1,000 bytes on each broker.
    assert with_disks(fault=fault, rate=20_000).layout.disk_mib << 20 > 60 * 20_000 * 1_000 * 1.5


@pytest.mark.parametrize("target", ["zookeeper", "zookeeper:1"])
def test_zookeeper_has_none(target: str) -> None:
    with pytest.raises(UsageFailure, match="power-loss breaks disks, and ZooKeeper has none of its own"):
        with_disks(target=target)
