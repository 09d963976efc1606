"""Topic parameters that keep a partition available, and what they cost; `settings.yaml` has the others."""

from __future__ import annotations

import time

from kafka_chaos.conformance.scenario.clusters import QUICK
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.reference_model.lockstep.cluster_model import step


def _kill_and_send(stage: Stage) -> None:
    stage.node(1).kill()
    stage.clients.send("m3")


@scenario("availability-config", title="With unclean election, service continues and acknowledged records are lost")
def availability_config(play: Play) -> None:
    """With unclean election and min.insync.replicas=1, the partition is available as long as one replica is alive. The
    last member of the ISR dies, and another replica leads as soon as the dead broker's session has ended. The price is
    every record that only the dead broker had, acknowledged or not.
    """
    with play.act("one replica after the other", profile=QUICK, controller=3, unclean_leader_election=True) as stage:
        stage.produce("m1")
        stage.await_committed("m1", 1)
        stage.cut(2, 1)
        stage.cut(3, 1)
        stage.produce("m2")
        stage.expect("m2 is acknowledged with only the leader in the ISR", stage.seen.isr, (1,))
        began = time.monotonic()
        sent = step("produce", record="m3")
        stage.take(
            "The leader is killed; m3 is sent at once.", lambda: _kill_and_send(stage), step("kill", broker=1), sent
        )
        waited = stage.answered("m3") - began
        stage.fact("seconds from the kill until the next record was acknowledged", round(waited, 2))
        stage.expect("m3 is acknowledged", stage.acknowledged["m3"], 1)
        stage.expect("m2 is lost", stage.read(), ["m1", "m3"])
        stage.start(1)
        stage.expect("All logs are equal", stage.logs(), [["m1", "m3"]] * 3)
