"""Kinds that hit clients, with fakes: what they do, what their proofs need, and what an experiment may ask of them."""

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.clients.members import ClientKill, ConnectionReset
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from tests.faults.fakes import FakeCluster, FakeNode, hit_by

LIST = "ss -tnH state established ( sport = :9094 or sport = :9095 )"
TWO = "0 0 172.18.0.3:9094 172.18.0.1:40001\n0 12 172.18.0.3:9095 172.18.0.128:40002\n"


def test_a_reset_is_proven_by_connections_that_are_gone() -> None:
    cluster = FakeCluster()
    broker = cluster.brokers[1]
    broker.answers = {"sh": (0, TWO), LIST: (0, TWO)}
    fault = ConnectionReset(target=Target.parse("broker:1"))
    nodes = fault.target.resolve(cluster, 0)
    assert not fault.proof(cluster, nodes).took_effect
    fault.inject(cluster, nodes)
    (command,) = broker.commands
    assert command[-1].endswith("&& ss -K -tnH state established '( sport = :9094 or sport = :9095 )' >/dev/null")
    still = fault.proof(cluster, nodes)
    assert (still.took_effect, still.reason) == (False, "broker-1: 2 of 2 connections are still open")
    broker.answers = {LIST: (0, TWO.replace("4000", "5000"))}
    gone = fault.proof(cluster, nodes)
    assert (gone.took_effect, gone.evidence) == (True, {"broker-1": {"connections": 2}})
    assert fault.describe_evidence(gone.evidence["broker-1"]) == "2 connections of clients reset"


@pytest.mark.parametrize(
    ("state", "reason"),
    [({"running": False}, "its process did not run"), ({"paused": True}, "its process did not run"),
     ({}, "no client was connected")],
)  # fmt: skip
def test_where_nothing_is_reset_there_is_no_proof(state: dict[str, bool], reason: str) -> None:
    cluster = FakeCluster()
    for name, value in state.items():
        setattr(cluster.brokers[1], name, value)
    cluster.brokers[1].answers = {"sh": (0, "")}
    fault = ConnectionReset(target=Target.parse("broker:1"))
    nodes = hit_by(fault, cluster)
    assert fault.proof(cluster, nodes).reason == f"broker-1: {reason}"


def test_a_member_that_had_ended_by_itself_is_no_proof() -> None:
    member = FakeNode("orders-group-0", 0, running=False, exit_code=-9)
    cluster = FakeCluster(processes={"orders": [member]})
    fault = ClientKill(target=Target.parse("member(orders)"))
    fault.inject(cluster, (member,))
    assert fault.proof(cluster, (member,)).reason == "orders-group-0: its process had ended before"


EXPERIMENT = """
name: clients
lanes:
  - {{lane: plain, acks: "1"}}
  - {{lane: java, client: java 3.9.1, idempotence: true}}
  - {{lane: twice, client: java 3.9.1}}
  - {{lane: orders, idempotence: true, group: {{members: 3, crashes: 1, joins: 1}}}}
  - {{lane: bills, acks: "1", idempotence: false, loop: {{source: orders, offsets: after}}}}
  - {{lane: sums, idempotence: true, loop: {{source: orders}}, transactional: {{producers: 3}}}}
schedule:
  - {{{fault}, at: 1, duration: 2}}
"""


def experiment_with(fault: str) -> Experiment:
    return parse_experiment(EXPERIMENT.format(fault=fault), "clients.yaml")


@pytest.mark.parametrize(
    ("fault", "crashes"),
    [
        ("fault: client-kill, target: member(orders)", (2, 0)), ("fault: client-kill, target: members(orders)", (5, 0)),
        ("fault: client-kill, target: member(sums)", (1, 1)), ("fault: client-pause, target: member(orders)", (1, 0)),
    ],
)  # fmt: skip
def test_the_model_is_told_of_members_that_crash_and_of_no_fault_of_brokers(
    fault: str, crashes: tuple[int, int]
) -> None:
    lanes = {lane.lane: lane for _, _, lane in experiment_with(fault).lanes}
    assert lanes["orders"].group is not None
    assert lanes["sums"].loop is not None
    assert (lanes["orders"].group.crashes, lanes["sums"].loop.group.crashes) == crashes
    assert not any(lane.faults for lane in lanes.values())


def test_a_reset_is_told_as_requests_and_answers_that_are_lost() -> None:
    experiment = experiment_with("fault: connection-reset, target: leader(plain)")
    assert {lane.faults for _, _, lane in experiment.lanes} == {("partition",)}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("fault: client-kill, target: leader(orders)", "expects one of member(LANE), members(LANE), producer(LANE)"),
        ("fault: kill, target: member(orders)", "kill expects a server: it hits no clients"),
        ("fault: connection-reset, target: member(orders)", "connection-reset expects a server"),
        ("fault: client-kill, target: member(plain)", "the lane plain has no group and no loop"),
        ("fault: client-kill, target: producer(plain)", "whose producer is a process of its own, such as librdkafka 2"),
        ("fault: client-pause, target: consumers(orders)", "whose consumer is a process of its own"),
        ("fault: client-pause, target: producer(twice)", "expected a lane with idempotence"),
        ("fault: kill, target: producer(java)", "kill expects a server: it hits no clients"),
        ("fault: client-kill, target: member(nowhere)", "there is no lane nowhere"),
        ("fault: client-pause, target: member(bills)", "expected a lane with idempotence"),
        ("fault: connection-reset, target: zookeeper", "connection-reset hits brokers, and no other server"),
    ],
)
def test_what_can_t_be_hit_is_refused_with_the_reason(fault: str, expected: str) -> None:
    with pytest.raises(UsageFailure) as refused:
        experiment_with(fault)
    assert expected in str(refused.value)


def test_where_connections_pass_links_these_break_them() -> None:
    faults = "fault: connection-reset, target: broker:1, at: 1}\n  - {fault: cut, target: broker:2"
    with pytest.raises(UsageFailure, match="expected cut"):
        experiment_with(faults)


def test_kinds_that_are_drawn_get_targets_that_fit() -> None:
    text = (
        EXPERIMENT.partition("schedule:")[0].replace("{{", "{").replace("}}", "}")
        + """
workload: {duration: 200}
schedule:
  generate:
    faults: [kill, client-kill]
    targets: [leader(orders), member(orders)]
    count: 20
    breaks: one
    duration: [1, 2]
    gap: [1, 2]
"""
    )
    drawn = {
        (fault.kind, fault.target.text)
        for phase in parse_experiment(text, "clients.yaml").phases
        for fault in phase.faults
    }
    assert drawn == {("kill", "leader(orders)"), ("client-kill", "member(orders)")}
    with pytest.raises(UsageFailure, match=r"targets: none of leader\(orders\) is a target for client-kill"):
        parse_experiment(text.replace(", member(orders)", ""), "clients.yaml")
