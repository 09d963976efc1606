"""The faults that the model counts in KRaft mode: docs/decisions/0039-kraft.md."""

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.experiment.file import parse_experiment

EXPIRY = ("session-expiry",) * 3
COMBINED = "{metadata_mode: kraft, kafka_version: 4.3.1}"
DEDICATED = "{metadata_mode: kraft, controllers: 3}"
ALONE = "{metadata_mode: kraft, controllers: 1}"


def lane(cluster: str, *faults: str) -> Lane:
    schedule = "".join(f"  - {{{fault}}}\n" for fault in faults)
    text = f"name: kraft\ncluster: {cluster}\nlanes:\n  - {{lane: orders}}\nschedule:\n{schedule}"
    ((_, _, found),) = parse_experiment(text, "kraft.yaml").lanes
    return found


@pytest.mark.parametrize(
    ("cluster", "target", "expected"),
    [
        (COMBINED, "leader(orders)", ("pause",)), (COMBINED, "controller", ("pause",)),
        (COMBINED, "majority", ("pause", "pause", *EXPIRY)), (DEDICATED, "leader(orders)", ("pause",)),
        (DEDICATED, "majority", ("pause", "pause")), (DEDICATED, "controller", ()),
        (DEDICATED, "controllers", EXPIRY), (DEDICATED, "controllers:majority", EXPIRY),
        (DEDICATED, "controllers:minority", ()), (DEDICATED, "controller:1", ()), (ALONE, "controller", EXPIRY),
        ("{}", "controller", ("pause",)), ("{}", "majority", ("pause", "pause")),
    ],
)  # fmt: skip
def test_whoever_stops_the_controllers_may_end_every_session(
    cluster: str, target: str, expected: tuple[str, ...]
) -> None:
    assert lane(cluster, f"fault: pause, target: {target}, at: 1, duration: 5").faults == expected


@pytest.mark.parametrize(("fault", "crashes"), [("client-pause", 1), ("client-kill", 1)])
def test_a_paused_member_of_a_share_group_drops_its_records_as_a_killed_one(fault: str, crashes: int) -> None:
    text = f"name: x\ncluster: {DEDICATED}\nlanes: [{{lane: orders, client: java 4.3.1, share: {{}}}}]\nschedule:\n"
    schedule = f"  - {{fault: {fault}, target: member(orders), at: 1, duration: 5}}\n"
    ((_, _, found),) = parse_experiment(text + schedule, "kraft.yaml").lanes
    assert found.share is not None
    assert found.share.crashes == crashes


@pytest.mark.parametrize(("second", "more"), [(4, EXPIRY), (6, EXPIRY), (7, ())])
def test_faults_that_overlap_count_together_also_at_controllers_that_are_no_brokers(
    second: int, more: tuple[str, ...]
) -> None:
    first = "fault: pause, target: broker:1, at: 1, duration: 5"
    found = lane(COMBINED, first, f"fault: kill, target: broker:2, at: {second}, duration: 5")
    assert found.faults == ("pause", "kill", *more)
    found = lane(
        DEDICATED,
        "fault: kill, target: controller, at: 1, duration: 5",
        f"fault: stop, target: controllers:minority, at: {second}, duration: 5",
        "fault: kill, target: majority, at: 3, duration: 5",
    )
    assert found.faults == ("kill", "kill", *more)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("fault: partition, target: controller", EXPIRY),
        ("fault: partition, target: controller, peers: brokers, port: control, direction: in", EXPIRY),
        ("fault: isolate, target: 'controllers:minority'", EXPIRY),
        ("fault: partition, target: leader(orders), peers: controllers", ("partition",)),
        ("fault: partition, target: leader(orders), peers: [101, 2]", ("partition",)),
    ],
)
def test_controllers_that_run_on_behind_a_cut_may_end_every_session(fault: str, expected: tuple[str, ...]) -> None:
    assert lane(DEDICATED, f"{fault}, at: 1, duration: 5").faults == expected


def test_a_lane_says_what_its_cluster_and_its_oldest_broker_are() -> None:
    found = lane(COMBINED, "fault: kill, target: broker:1, at: 1")
    assert (found.metadata_mode, found.kafka_version, found.elr) == ("kraft", "4.3.1", True)
    found = lane(COMBINED.replace("}", ", elr: false}"), "fault: kill, target: broker:1, at: 1")
    assert found.elr is False
    found = lane("{}", "fault: kill, target: broker:1, at: 1")
    assert (found.metadata_mode, found.kafka_version, found.elr) == ("zookeeper", "3.9.1", None)
    mixed = lane("{broker_versions: {3: 2.4.1}}", "fault: kill, target: broker:1, at: 1")
    assert mixed.kafka_version == "2.4.1"


CUT = "partition, target"


@pytest.mark.parametrize(
    ("cluster", "fault", "message"),
    [
        (COMBINED, "kill, target: zookeeper", r"schedule\[0\].target: zookeeper: a cluster in KRaft mode"),
        (DEDICATED, f"{CUT}: controllers", "there are no others to be cut off from"),
        (ALONE, f"{CUT}: controller", "expected other peers"),
        (ALONE, "kill, target: 'controllers:minority'", "one controller alone has no minority"),
        (COMBINED, f"{CUT}: all, peers: controllers", "there are no others to be cut off from"),
        (COMBINED, f"{CUT}: all, peers: [101]", "101 is not the id of a node: expected 1, 2, 3$"),
        (DEDICATED, f"{CUT}: all, peers: [104]", "expected 1, 2, 3, 101, 102, 103"),
        (COMBINED, "packet-delay, target: all", r"schedule\[0\].fault: 'packet-delay' is no longer a fault kind"),
        (DEDICATED, f"{CUT}: controller, port: replication", "no such listener: expected control"),
        (DEDICATED, f"{CUT}: controller, peers: brokers, port: control, direction: out",
         "brokers have no such listener"),
        (COMBINED, "stop, target: all", "the last of them could not shut down"),
        (DEDICATED, f"{CUT}: majority, port: control", r"schedule\[0\].port: brokers have no such"),
        ("{metadata_mode: kraft, broker_configs: {zookeeper.connect: x}}", "kill, target: all", "harness"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_in_kraft_mode_is_refused(cluster: str, fault: str, message: str) -> None:
    with pytest.raises(UsageFailure, match=message):
        lane(cluster, f"fault: {fault}, at: 1")
