"""The file of leader epochs, line by line; `leader_epoch.yaml` has what leader epochs are for."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA

TRUNCATE_TO_HIGH_WATERMARK = "truncate-to-high-watermark"
B_WITH = ClusterProfile(name="two brokers", brokers=2)


@scenario(
    "leader-epoch-checkpoint",
    title="leader-epoch-checkpoint through restarts, line by line",
    needs_zookeeper="removing a dead replica from the ISR begins a leader epoch; in KRaft mode, since 3.6, it does not",
)
def leader_epoch_checkpoint(play: Play) -> None:
    """The file's first line is its version, the second the number of entries. `epoch start-offset` lines follow. Each
    new leader epoch adds a line. The controller increments the epoch when it changes the leader and when it removes a
    dead replica from the ISR, but not when a replica joins the ISR.
    """
    with play.act("two replicas", profile=B_WITH, replicas=(1, 2), controller=2) as stage:
        said: list[dict[str, str]] = []

        def note(when: str, expected: str) -> None:
            text = stage.node(1).read_file(f"{BROKER_DATA}/{stage.topic}-0/leader-epoch-checkpoint").decode()
            said.append({"when": when, "broker 1's file": " / ".join(text.split("\n")[:-1])})
            stage.expect(f"Broker 1's file {when}", text, expected)

        note("of a new topic", "0\n1\n0 0\n")
        stage.produce("message1")
        note("after message1, which adds no line", "0\n1\n0 0\n")
        stage.stop(1)
        leader = (stage.seen.leader, stage.seen.leader_epoch)
        stage.expect("Broker 2 leads in a new epoch", leader, (2, 1))
        stage.start(1)
        stage.expect("Joining the ISR does not change the epoch", stage.seen.leader_epoch, 1)
        stage.produce("message2")
        note("after a shutdown, a restart and message2 from broker 2", "0\n2\n0 0\n1 1\n")
        stage.kill(2)
        epoch = stage.seen.leader_epoch or 0
        stage.expect("Broker 1 leads", stage.seen.leader, 1)
        note("after broker 2, leader and controller, is killed", f"0\n3\n0 0\n1 1\n{epoch} 2\n")
        stage.start(2)
        stage.produce("message3")
        stage.kill(2)
        stage.expect(
            "A dead follower leaves the ISR in a new epoch",
            (stage.seen.leader, stage.seen.leader_epoch, stage.seen.isr),
            (1, epoch + 1, (1,)),
        )
        note("after the follower is killed", f"0\n4\n0 0\n1 1\n{epoch} 2\n{epoch + 1} 3\n")
        stage.fact("the file, step by step", said)
