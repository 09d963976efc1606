"""Since Kafka 3.7 (KAFKA-15583) a high watermark waits while the ISR is below min.insync.replicas.

The lane knows this only of what consumers read: they read nothing new meanwhile.
"""

from dataclasses import replace

import pytest

from kafka_chaos.reference_model import Anomaly, Lane, predict
from tests.reference_model.answers import shown

LANES = {
    "acks0": Lane(lane="waiting", acks="0", min_insync_replicas=2),
    "acks1": Lane(lane="waiting", acks="1", min_insync_replicas=2),
    "all": Lane(lane="waiting", acks="all", min_insync_replicas=2),
    "idempotent": Lane(lane="waiting", acks="all", idempotence=True, min_insync_replicas=2),
}
LANES |= {f"{name}, eligible": replace(lane, kafka_version="4.3.1") for name, lane in LANES.items()}

OF_READS = {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET}


@pytest.mark.parametrize("name", LANES)
def test_what_all_replicas_hold_survives_an_unclean_election(name: str) -> None:
    """A consumer reads only what every replica has; with a smaller minimum it reads what the leader alone has."""
    waiting = replace(LANES[name], replication_factor=2, faults=("kill",), unclean_leader_election=True)
    assert not shown(predict(waiting), Anomaly) & OF_READS - (
        {Anomaly.INCONSISTENT_OFFSET} if name.startswith("acks1") else set()
    )
    assert Anomaly.TRUNCATED_READ in shown(predict(replace(waiting, min_insync_replicas=1)), Anomaly)
