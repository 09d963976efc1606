"""Replica recovery with acks=0; `acks.yaml` has the other settings. X, Y and Z are brokers 1, 2 and 3."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.clients import Clients
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario

X, Y, Z = 1, 2, 3
NAMES = {X: "X", Y: "Y", Z: "Z"}


@scenario("acks-0", title="acks=0: records are lost without a single error")
def acks_0(play: Play) -> None:
    """The broker acknowledges nothing: a producer reports a record as delivered once it has handed the record to its
    socket. A record that only the leader has is lost with the leader. A record that the broker refuses is lost at once.
    The producer reports success for both.
    """
    with play.act("handed to the socket", names=NAMES, controller=Y, configs={"max.message.bytes": 300}) as stage:
        stage.produce("M1", acks="0")
        stage.expect("M1 has no offset", stage.seen.acknowledged, (("M1", None),))
        stage.await_committed("M1", 1)
        stage.cut(Y, X)
        stage.cut(Z, X)
        stage.produce("M2", acks="0")
        stage.expect("Only X has M2", stage.logs(), [["M1", "M2"], ["M1"], ["M1"]])
        stage.kill(X)
        stage.start(X)
        stage.expect("M2 is gone", stage.logs(), [["M1"]] * 3)
        with Clients(stage.lease.cluster.bootstrap_servers, stage.topic) as other:
            other.send("M3" + "x" * 1000, producer="too large", acks="0")
            stage.expect_eventually(
                "M3, too large for the topic, is reported as delivered",
                lambda: [answer.error for answer in other.answers()],
                [None],
            )
            refusal = stage.await_line(stage.seen.leader or Y, "Closing connection due to error", "ack=0")
            stage.fact("the leader's log", refusal)
        # The first producer may not know the new leader yet, and would lose M4 just as silently.
        stage.produce("M4", acks="0", producer="another")
        stage.expect("M3 was never written", stage.log(Y), ["M1", "M4"])
        failed = [answer for answer in stage.clients.answers() if answer.error]
        stage.expect("No record got an error", failed, [])
