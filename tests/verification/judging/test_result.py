"""What a lane's verdict says of an anomaly's status."""

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.verification.judging.result import LaneVerdict

LANE = LaneVerdict(
    lane="a",
    verdict=Verdict.CONFORMS,
    produced=1,
    acknowledged=1,
    consumed=1,
    predicted={Anomaly.LOST_WRITE: Status.PERMITTED, Anomaly.DUPLICATE: Status.PERMITTED},
    observed={},
    not_judged={},
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
