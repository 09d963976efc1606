"""Document 002, replica recovery: what each acks setting keeps when a leader dies with records on their way.

X, Y and Z are brokers 1, 2 and 3. Z is cut off before M3, Y before M4, then X is killed: X holds all four records,
Y lacks M4, Z lacks both.
"""

from __future__ import annotations

from kafka_chaos.harness.scenario.clients import Clients
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.scenario.stage import Stage

X, Y, Z = 1, 2, 3
NAMES = {X: "X", Y: "Y", Z: "Z"}


def _until_x_dies(stage: Stage, *, acks: str, idempotent: bool = False, second: str = "p") -> None:
    """M1 and M2 everywhere, M3 on X and Y, M4 on X alone; then X is killed."""
    for record in ("M1", "M2"):
        stage.produce(record, acks=acks, idempotent=idempotent)
    stage.await_seen("Everyone knows that M2 is committed.", lambda seen: stage.high_watermarks(seen) == [2, 2, 2])
    stage.cut(Z, X)
    stage.produce("M3", acks=acks, idempotent=idempotent)
    stage.cut(Y, X)
    stage.produce("M4", acks=acks, idempotent=idempotent, producer=second)
    logs = [stage.log(broker) for broker in (X, Y, Z)]
    stage.expect(
        "X holds all, Y lacks M4, Z lacks both",
        seen=logs,
        expected=[["M1", "M2", "M3", "M4"], ["M1", "M2", "M3"], ["M1", "M2"]],
    )
    stage.kill(X)
    stage.expect("Y is elected", seen=(stage.seen.leader, stage.seen.leader_epoch), expected=(Y, 1))


def _x_returns(stage: Stage) -> None:
    stage.start(X)
    stage.expect("X is in sync again", seen=stage.seen.isr, expected=(X, Y, Z))
    logs = [stage.log(broker) for broker in (X, Y, Z)]
    stage.expect("all logs are equal", seen=logs[0] == logs[1] == logs[2])
    stage.fact("X's log", stage.await_line(X, "Truncating to offset 3", stage.topic))
    lines = stage.node(X).log_since(stage.began).splitlines()
    further = [line for line in lines if stage.topic in line and "Truncating to offset 2" in line]
    stage.expect("X has truncated M4 alone: M3 is Y's too", seen=further, expected=[])


@scenario(
    "acks-all-recovery", document="002", title="acks=all loses nothing; without idempotence the retry duplicates M3"
)
def acks_all_recovery(play: Play) -> None:
    """M3 and M4 are not acknowledged when X dies, so their producers send them again. Y was elected and holds M3
    already: without idempotence it takes it a second time, with it it knows M3 by its sequence number. Z fetches M3
    from Y; X returns, truncates what Y lacks, and fetches the rest.
    """
    with play.act("without idempotence", controller=Y, names=NAMES) as stage:
        _until_x_dies(stage, acks="all", second="q")
        answered = dict(stage.seen.acknowledged or ())
        stage.expect("M3 is there twice, M4 once, nothing is lost", seen=sorted(stage.log(Y)), expected=_THRICE)
        stage.expect("the first M3 is the old one", seen=stage.log(Y)[:3], expected=["M1", "M2", "M3"])
        epochs = [epoch for _, _, epoch in stage.replica(Y).log or ()]
        stage.expect("the retries are in epoch 1", seen=epochs, expected=[0, 0, 0, 1, 1])
        stage.expect(
            "M3 and M4 are acknowledged behind it", seen=sorted((answered["M3"], answered["M4"])), expected=[3, 4]
        )
        stage.expect("Z follows Y", seen=stage.log(Z) == stage.log(Y))
        _x_returns(stage)
        stage.expect("nobody dropped M3", seen=stage.log(X)[2], expected="M3")
    with play.act("with idempotence", controller=Y, names=NAMES) as stage:
        _until_x_dies(stage, acks="all", idempotent=True, second="q")
        stage.expect("no duplicate", seen=stage.log(Y), expected=["M1", "M2", "M3", "M4"])
        answered = dict(stage.seen.acknowledged or ())
        stage.expect("M3 is acknowledged where it stood", seen=answered, expected={"M1": 0, "M2": 1, "M3": 2, "M4": 3})
        _x_returns(stage)


_THRICE = ["M1", "M2", "M3", "M3", "M4"]


@scenario("acks-1-recovery", document="002", title="acks=1: an acknowledged record is lost for good")
def acks_1_recovery(play: Play) -> None:
    """M4 is acknowledged by X alone, which dies. Y is elected without it, its producer has no reason to send it again,
    and when X returns it truncates its own copy: nobody is told.
    """
    with play.act("M4 is acknowledged", controller=Y, names=NAMES) as stage:
        _until_x_dies(stage, acks="1")
        answered = dict(stage.seen.acknowledged or ())
        stage.expect("all four are acknowledged", seen=answered, expected={"M1": 0, "M2": 1, "M3": 2, "M4": 3})
        stage.expect("M4 is gone", seen=stage.log(Y), expected=["M1", "M2", "M3"])
        _x_returns(stage)
        stage.expect("X has truncated M4", seen=stage.log(X), expected=["M1", "M2", "M3"])
        errors = [answer.error for answer in stage.clients.answers() if answer.error]
        stage.expect("no error was reported for any record", seen=errors, expected=[])


@scenario("acks-0", document="002", title="acks=0: records are lost without a single error")
def acks_0(play: Play) -> None:
    """Nothing is acknowledged: what a producer calls delivered is what it has handed to its socket. A record that the
    leader alone had is lost with it, and one that the broker refuses is lost at once; the producer reports success for
    both.
    """
    with play.act("handed to the socket", names=NAMES, controller=Y, configs={"max.message.bytes": 300}) as stage:
        stage.produce("M1", acks="0")
        stage.expect("M1 has no offset", seen=stage.seen.acknowledged, expected=(("M1", None),))
        stage.await_seen("Everyone has M1.", lambda seen: stage.high_watermarks(seen) == [1, 1, 1])
        stage.cut(Y, X)
        stage.cut(Z, X)
        stage.produce("M2", acks="0")
        stage.expect("X alone has M2", seen=[stage.log(b) for b in (X, Y, Z)], expected=[["M1", "M2"], ["M1"], ["M1"]])
        stage.kill(X)
        stage.start(X)
        stage.expect("M2 is gone", seen=[stage.log(b) for b in (X, Y, Z)], expected=[["M1"]] * 3)
        with Clients(stage.tenancy.cluster.bootstrap_servers, stage.topic) as other:
            large = "M3" + "x" * 1000
            other.send(large, producer="too large", acks="0", idempotent=False, key=None, configs={})
            stage.expect_eventually(
                "M3, too large for the topic, is reported as delivered",
                lambda: [answer.error for answer in other.answers()],
                expected=[None],
            )
            refusal = stage.await_line(stage.seen.leader or Y, "Closing connection due to error", "ack=0")
            stage.fact("the leader's log", refusal)
        # The first producer may not have heard of the new leader, and would lose M4 as silently.
        stage.produce("M4", acks="0", producer="another")
        stage.expect("M3 was never written", seen=stage.log(Y), expected=["M1", "M4"])
        failed = [answer for answer in stage.clients.answers() if answer.error]
        stage.expect("not one error was reported", seen=failed, expected=[])
