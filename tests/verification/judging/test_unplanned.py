"""Elections that no fault of the run can have caused: what only they permit is no violation."""

from dataclasses import replace

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.events import BrokerSessionEnded, LeaderElected
from kafka_chaos.contract.lane.families import Cause
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.inputs.documents.events import Events, Phase
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.judge import judge, unplanned
from kafka_chaos.verification.judging.result import Observation
from kafka_chaos.verification.tables.facts import LaneFacts
from tests.verification.judging.one_lane import KILL, LANE, run, verdict_of
from tests.verification.samples import changes
from tests.verification.samples.partitions import FULL

LOSING = replace(LANE, acks="1", replication_factor=3, min_insync_replicas=1)
LOST = {Anomaly.LOST_WRITE: 3}


def elected(leader_epoch: int, ts_ns: int) -> LeaderElected:
    return changes.elected(ts_ns, 2, leader_epoch, 5, (2, 3))


def run_with(
    *won: LeaderElected, faults: tuple[FaultRecord, ...] = (), outside: dict[str, tuple[str, ...]] | None = None
) -> RunDirectory:
    events = Events(faults, phases={"p": Phase(("a",), 100, 900)}, changes={("a", 0): won}, outside=outside or {})
    return replace(run(faults=faults), events=events)


DRIFT = replace(KILL, fault_id="drift-1", kind="clock-drift")


@pytest.mark.parametrize(
    ("directory", "count"),
    [
        (run_with(elected(1, 300)), 1),
        (run_with(elected(0, 300)), 0),
        (run_with(elected(1, 50)), 0),
        (run_with(elected(1, 100)), 1),
        (run_with(elected(1, 900)), 1),
        (run_with(elected(1, 901)), 0),
        (run_with(elected(1, 150), faults=(KILL,)), 1),
        (run_with(elected(1, 250), faults=(KILL,)), 0),
        (run_with(elected(1, 200), faults=(KILL,)), 0),
        # By its own clock, nobody knows when.
        (run_with(elected(1, 50), faults=(DRIFT,)), 1),
        (run_with(elected(1, 901), faults=(DRIFT,)), 1),
        (run_with(elected(1, 150), faults=(DRIFT, KILL)), 0),
        (run_with(elected(1, 300), outside={"a": ("kill",)}), 0),
        (replace(run_with(elected(1, 300)), events=Events(faults=(), changes={("a", 0): (elected(1, 300),)})), 0),
    ],
)
def test_elections_that_no_fault_may_have_caused(directory: RunDirectory, count: int) -> None:
    assert len(unplanned(directory, LOSING)) == count


def test_the_first_of_them_is_named() -> None:
    lane = verdict_of(run_with(elected(2, 400), replace(elected(1, 300), broker=3)), lane=LOSING, counts=LOST)
    assert "but broker 3 became leader of partition 0 in leader epoch 1" in lane.reasons[0]


def test_what_they_permit_is_no_violation() -> None:
    lane = verdict_of(run_with(elected(1, 300)), lane=LOSING, counts=LOST)
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == (
        "lost_write is forbidden for these faults and was found: 3, but broker 2 became leader of partition 0 in "
        "leader epoch 1, and no fault of the run had been requested that may cause it",
    )


def test_they_permit_nothing_that_no_behaviour_explains() -> None:
    directory = run_with(elected(1, 300))
    seen = {Anomaly.LOST_WRITE: Observation(3, causes={Cause.ELECTION: 2, Cause.UNEXPLAINED: 1})}
    predicted = LanePrediction(dict.fromkeys(Anomaly, Status.FORBIDDEN), "model", (), "digest")
    lane = judge(LaneEvidence(directory, LOSING, LaneFacts({0: FULL}), predicted, seen))
    assert (lane.verdict, lane.reasons) == (Verdict.VIOLATION, ("lost_write is forbidden and was found: 3",))


@pytest.mark.parametrize(
    ("directory", "lane"),
    [
        (run_with(elected(0, 50)), LOSING),
        # Clean elections lose nothing that is on the minimum of in-sync replicas.
        (run_with(elected(1, 300)), replace(LOSING, acks="all", min_insync_replicas=2)),
    ],
)
def test_what_is_forbidden_all_the_same_stays_a_violation(directory: RunDirectory, lane: Lane) -> None:
    found = verdict_of(directory, lane=lane, counts=LOST)
    assert found.verdict == Verdict.VIOLATION


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        # Broker 2 was not hit.
        (BrokerSessionEnded(ts_ns=350, broker=2, controller=3), Verdict.UNKNOWN),
        # The fault ended this session: what is forbidden amid it is a violation.
        (BrokerSessionEnded(ts_ns=350, broker=1, controller=3), Verdict.VIOLATION),
        # Before the load of the lane.
        (BrokerSessionEnded(ts_ns=50, broker=2, controller=3), Verdict.VIOLATION),
    ],
)
def test_a_session_that_no_fault_ended_explains_what_ends_of_sessions_permit(
    end: BrokerSessionEnded, verdict: Verdict
) -> None:
    directory = run_with(faults=(replace(KILL, resolved=("broker-1",)),))
    directory = replace(directory, events=replace(directory.events, ended_sessions=(end,)))
    lane = verdict_of(directory, lane=LOSING, counts=LOST)
    assert lane.verdict == verdict
    told = "but the session of broker 2 ended, and no fault of the run explains it" in " ".join(lane.reasons)
    assert told == (verdict == Verdict.UNKNOWN)
