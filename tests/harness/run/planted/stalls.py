"""Runs of stalls.yaml, with a stall in each of its lanes but one."""

import subprocess
from pathlib import Path
from unittest.mock import patch

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.events import Event, PhaseStarted
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.harness.workload.clients.following import RecordedConsumer
from kafka_chaos.verification.judging.result import RunVerdict
from tests.harness.run.planted.plant import Planting

EXPERIMENT = Path(__file__).with_name("stalls.yaml")
STALLS = {
    "follower": RecoveryAnomaly.ISR_NOT_RESTORED,
    "consumer": RecoveryAnomaly.STALLED_CONSUMER,
    "transaction": RecoveryAnomaly.TRANSACTION_NOT_ENDED,
}
SOUND = "sound"
BROKERS = (1, 2, 3)
READ_BEFORE_PAUSE = 5000
TRANSACTIONS_BEFORE = 50
"""That the coordinator ends before it stops to write markers."""


class Stalling(Planting):
    """A listener of a run: once the topics are there, followers of one are throttled, and coordinators lose markers."""

    def __init__(self) -> None:
        super().__init__({"main": dict.fromkeys(BROKERS, f"none;{TRANSACTIONS_BEFORE};markers")})

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, PhaseStarted):
            self._throttle("follower")

    def _throttle(self, topic: str) -> None:
        """Let followers of a topic that are not in the ISR fetch a byte a second."""
        named = subprocess.run(["docker", "port", self.container(1)], check=True, capture_output=True, text=True)
        admin = AdminClient({"bootstrap.servers": named.stdout.split()[-1]})
        rate = "follower.replication.throttled.rate"
        places = [(ResourceType.TOPIC, topic, "follower.replication.throttled.replicas", "*")]
        places += [(ResourceType.BROKER, str(broker), rate, "1") for broker in BROKERS]
        for kind, name, key, value in places:
            entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for answer in admin.incremental_alter_configs(
                [ConfigResource(kind, name, incremental_configs=[entry])]
            ).values():
                answer.result()


def run_with_stalls(out: Path) -> RunVerdict:
    """The verdict on one run of stalls.yaml, below `out`."""
    poll = RecordedConsumer.poll

    def pausing(self: RecordedConsumer, timeout: float) -> None:
        poll(self, timeout)
        if self.lane == "consumer" and self.consumed > READ_BEFORE_PAUSE:
            self._consumer.pause(self._consumer.assignment())

    with patch.object(RecordedConsumer, "poll", pausing):
        experiment = load_experiment(EXPERIMENT)
        return run_experiment(experiment, root=out, listeners=[Stalling()], engine=Engine.DUCKDB).verdict
