"""Load beside a scenario: what was acknowledged and is gone is found, and nothing else."""

import pytest

from kafka_chaos.conformance.scenario.clusters import ClusterPool, ClusterProfile
from kafka_chaos.conformance.scenario.load import load_beside
from kafka_chaos.conformance.scenario.steps.faults import cut_last_batch
from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.experiment.lane_specs import LaneSpec


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_an_acknowledged_record_that_is_gone_is_found_in_its_lane(pool: ClusterPool) -> None:
    lease = pool.lease_clean_cluster(ClusterProfile(name="one broker", brokers=1, fresh=True))
    (broker,) = lease.cluster.brokers.values()
    lanes = [LaneSpec(lane=name, replication_factor=1) for name in ("whole", "cut")]
    with load_beside(lease, ("kill",), lanes) as load:
        topic, admin = load.run.phase.lanes[1].topic_name, load.run.admin
        wait_until(lambda: admin.end_offsets(topic, range(1))[0] >= 100, "a hundred records in the log", timeout=30)
        broker.kill()
        # Nobody may have been told of the last one when the broker died.
        for _ in range(5):
            cut_last_batch(broker, topic, 0)
        lease.cluster.start_again([broker])
        verdict = load.verify()
    assert {lane.lane: lane.verdict for lane in verdict.lanes} == {"whole": Verdict.CONFORMS, "cut": Verdict.VIOLATION}
    lost = verdict.lane("cut").count(Anomaly.LOST_WRITE)
    assert lost
    assert [row["lost"] for row in load.table(verdict)] == [0, lost]
