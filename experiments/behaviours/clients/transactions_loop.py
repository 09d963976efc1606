"""A loop that consumes, transforms and produces in transactions (KIP-98, KIP-447), and crashes at every place."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.clients import read_to_end
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.transactions.producers import leader_of
from kafka_chaos.conformance.scenario.transactions.stage import TransactionsStage, transactional_act
from kafka_chaos.experiments.behaviours.clients.transactions import BOTH_PROTOCOLS
from kafka_chaos.harness.cluster.broker.client import BrokerClient

INPUTS = ("one", "two")


@scenario("eos-loop-crash", title="A consume-transform-produce loop crashes at every place: each input counts once")
def eos_loop_crash(play: Play) -> None:
    """A loop reads an input, writes its output, and adds its group's next offset to the same transaction. It crashes
    before the offset is part of it, and once more before the commit. Each time the next incarnation takes the
    transactional id, which aborts what was open, and goes on from the group's offset: it handles the input again. While
    an offset is pending, a consumer that asks for a stable one is told to wait (KIP-447), so that nobody begins from
    the offset before it. After a commit the offset is the next one, whether or not the loop has heard of it.
    read_committed has each output once; read_uncommitted also has those of the attempts that crashed.
    """
    for name, (profile, bumps) in BOTH_PROTOCOLS.items():
        with transactional_act(play, name, profile=profile, partitions=1, bumps=bumps, with_group=True) as stage:
            _feed(stage)
            stage.initialise("p1")
            _handle_input(stage, "p1")
            stage.crash("p1")
            stage.initialise("p2")
            stage.expect("What p1 wrote is aborted", stage.committed(), [])
            offset = _handle_input(stage, "p2")
            stage.commit_offset("p2", offset + 1)
            stage.commit("p2")
            stage.expect("One output, one input done", (stage.committed(), _offset(stage)), (["1:one"], 1))
            offset = _handle_input(stage, "p2")
            stage.commit_offset("p2", offset + 1)
            pending = stage.now.offsets is not None and stage.now.offsets.pending
            stage.expect("An offset is pending", (_offset(stage), pending), (1, True))
            stage.crash("p2")
            stage.initialise("p3")
            stage.expect("Neither output nor offset has moved", (stage.committed(), _offset(stage)), (["1:one"], 1))
            offset = _handle_input(stage, "p3")
            stage.commit_offset("p3", offset + 1)
            stage.commit("p3")
            stage.crash("p3")
            stage.initialise("p4")
            stage.expect("No input is left", _offset(stage), len(INPUTS))
            stage.expect("Each input counts once", stage.committed(), ["1:one", "2:two"])
            attempts = ["1:one", "1:one", "2:two", "2:two"]
            stage.expect("read_uncommitted counts each attempt", stage.uncommitted(), attempts)


def _feed(stage: TransactionsStage) -> None:
    cluster, source = stage.lease.cluster, stage.clients.source
    with BrokerClient(cluster.client_address(leader_of(cluster, source, 0))) as leader:
        for record in INPUTS:
            leader.produce(source, record)
    stage.fact("the input", [record for _, record in read_to_end(cluster.bootstrap_servers, source)])


def _handle_input(stage: TransactionsStage, producer: str) -> int:
    """Read the input at the group's offset, and write what comes of it. Returns the offset."""
    offset = _offset(stage)
    records = read_to_end(stage.lease.cluster.bootstrap_servers, stage.clients.source)
    record = next(record for at, record in records if at == offset)
    stage.write(producer, f"{offset + 1}:{record}")
    return offset


def _offset(stage: TransactionsStage) -> int:
    """The group's offset after the last step; it begins with 0."""
    return (stage.now.offsets.committed or 0) if stage.now.offsets is not None else 0
