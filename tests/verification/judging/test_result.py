"""What a lane's verdict says of an anomaly's status."""

from kafka_chaos.contract.anomalies import Anomaly, Status
from tests.verification.samples.verdicts import lane_verdict

LANE = lane_verdict(
    "a",
    predicted={Anomaly.LOST_WRITE: Status.PERMITTED, Anomaly.DUPLICATE: Status.PERMITTED},
    in_this_run={Anomaly.LOST_WRITE: Status.FORBIDDEN},
)


def test_an_anomaly_is_judged_by_its_status_in_this_run() -> None:
    anomalies = (Anomaly.LOST_WRITE, Anomaly.DUPLICATE, Anomaly.PHANTOM)
    assert [LANE.judged_by(one) for one in anomalies] == [Status.FORBIDDEN, Status.PERMITTED, None]
    assert [LANE.status_described(one) for one in anomalies] == [
        "forbidden in this run, permitted for these faults",
        "permitted",
        "not predicted",
    ]
