"""Each event that no behaviour of the model explains is named, and none that has another cause."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.events import HighWatermark, PartitionOffline
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.inputs.documents.checkpoints import Checkpoints
from kafka_chaos.verification.inputs.documents.events import Change, Events, Phase
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.unexplained import UNEXPLAINED, unexplained
from tests.verification.samples.changes import MS, PAUSE, POWER_LOSS, States, elected, states, truncated

LANE = Lane(lane="a", acks="1", faults=("pause",))
ISR = (1, 2, 3)
FIRST, SECOND = elected(1 * MS, 1, 0, 0, ISR), elected(30 * MS, 2, 1, 100, ISR)
CUT = truncated(41 * MS, 1, 100, 120)
ISRS: States = [(1, (1, 2, 3)), (30, (2, 3)), (50, (1, 2, 3))]


def mark(offset: int, epoch: int = 0) -> HighWatermark:
    return HighWatermark(
        ts_ns=19 * MS, lane="a", partition=0, broker=epoch + 1, leader_epoch=epoch, high_watermark=offset
    )


def found(
    changes: list[Change],
    *,
    lane: Lane = LANE,
    fault: FaultRecord = PAUSE,
    isrs: States = ISRS,
    offline: int | None = None,
    ends: dict[int, int | None] | None = None,
    chain: tuple[tuple[int, int], ...] = ((0, 0), (1, 100)),
    marks: tuple[HighWatermark, ...] = (mark(100),),
    **events: Any,
) -> list[str]:
    kept: list[Any] = [*states(isrs)]
    if offline is not None:
        kept.append(PartitionOffline(ts_ns=29 * MS, controller=3, lane="a", partition=0, leader_epoch=offline))
    given = {"phases": {"load": Phase(None, 2 * MS, 60 * MS)}, "faults": (fault,), **events}
    told = Events(changes={("a", 0): changes}, kept={("a", 0): kept}, reports={("a", 0): marks}, **given)
    logs = {1: 200, 2: 200, 3: 200} if ends is None else ends
    checkpoints = Checkpoints(chain={("a", 0): chain} if chain else {}, log_ends={("a", 0): logs})
    run = RunDirectory(path=None, lanes=(lane,), tables={}, events=told, checkpoints=checkpoints)
    return unexplained(run, lane)


def test_a_zombie_that_comes_back_and_truncates_is_explained() -> None:
    assert found([FIRST, SECOND, CUT]) == []
    assert found([elected(1 * MS, 1, 2, 0, ISR), elected(9 * MS, 2, 1, 0, ISR)], marks=()) == []


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "two leaders": ({"changes": [FIRST, SECOND, elected(35 * MS, 3, 1, 100, ISR)]}, "one leader in each epoch"),
    "a leader of an offline partition": ({"changes": [FIRST, SECOND], "offline": 1}, "expected none"),
    "an epoch back": (
        {"changes": [elected(1 * MS, 1, 2, 0, ISR), elected(9 * MS, 1, 1, 0, ISR)], "marks": ()},
        "expected epoch 2",
    ),
    "a leader without a committed record": (
        {"changes": [FIRST, replace(SECOND, start_offset=99)]},
        "the high watermark 100",
    ),
    "a member of the ISR without one": (
        {"changes": [FIRST, SECOND], "ends": {1: 99, 2: 100, 3: 200}},
        ": the log of broker 1 of the ISR ends at 99; expected the high watermark 100 at least",
    ),
    "a truncation below the high watermark": (
        {"changes": [FIRST, SECOND, replace(CUT, offset=60, reason="planted")]},
        ": broker 1 truncated its log to 60 (planted); expected the start of a leader's epoch, 0 or 100",
    ),
    "a leader from outside": (
        {"changes": [FIRST, SECOND], "isrs": [(1, (1, 2)), (30, (3,))]},
        ": the ISR became 3; expected a leader of the ISR before, 1, 2",
    ),
}


@pytest.mark.parametrize(("given", "expected"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_event_is_named_with_what_was_expected(given: dict[str, Any], expected: str) -> None:
    (problem,) = found(**given)
    assert problem.startswith(f"{UNEXPLAINED}: partition 0")
    assert expected in problem


BELOW: States = [(1, (1, 2, 3)), (10, (2, 3)), (20, (3,)), (30, (2,)), (50, (1, 2, 3))]


@pytest.mark.parametrize(
    ("changes", "isrs", "is_explained"),
    [
        ({}, BELOW, True),
        ({"elr": False}, BELOW, False),
        ({"kafka_version": "3.9.1"}, BELOW, False),
        ({"min_insync_replicas": 1}, BELOW, False),
        ({}, [*BELOW[:3], (30, (1,)), BELOW[4]], False),
        ({}, [*BELOW[:3], (25, (3, 1)), (27, (3,)), (30, (2,)), BELOW[4]], False),
        ({}, [*BELOW[:3], (25, (2,)), (30, (3,)), BELOW[4]], True),
    ],
    ids=["eligible", "no ELR", "before KIP-966", "never below", "left before", "the minimum again", "there and back"],
)
def test_a_leader_may_be_one_that_left_an_isr_below_the_minimum(
    changes: dict[str, Any], isrs: States, is_explained: bool
) -> None:
    """Seen on 4.3.1: `isr: [2, 3] -> [3], elr: [] -> [2]`, and then `isr: [3] -> [2]`."""
    lane = replace(LANE, acks="all", min_insync_replicas=2, kafka_version="4.3.1", metadata_mode="kraft")
    seen = found([FIRST], lane=replace(lane, **changes), isrs=isrs, marks=())
    assert any("expected a leader of the ISR before" in one for one in seen) is not is_explained


def test_an_event_is_timed_from_the_beginning_of_the_load() -> None:
    (problem,) = found([FIRST, SECOND, elected(35 * MS, 3, 1, 100, ISR)])
    assert problem.startswith(f"{UNEXPLAINED}: partition 0, 0.033 s after the load began: broker 3 led in epoch 1 from")


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"fault": POWER_LOSS}, "a broker without power loses what it had not flushed"),
        ({"lane": replace(LANE, unclean_leader_election=True)}, "an unclean leader may lack committed records"),
        ({"marks": (mark(100, epoch=1),)}, "the high watermark is of the same epoch"),
        ({"marks": ()}, "nothing is known to be committed"),
    ],
)
def test_a_leader_with_a_shorter_log_may_have_another_cause(given: dict[str, Any], because: str) -> None:
    assert found([FIRST, replace(SECOND, start_offset=99)], **given) == [], because


@pytest.mark.parametrize(
    "given",
    [
        {"chain": ()},
        {"chain": ((0, 0), (2, 60))},
        {"changes": [SECOND, replace(CUT, offset=60)]},
        {"changes": [FIRST, SECOND, replace(CUT, offset=60, log_end=60)]},
        {"fault": POWER_LOSS},
    ],
    ids=["no checkpoints", "an epoch of which no log tells", "no first election", "nothing dropped", "power loss"],
)
def test_where_an_election_may_be_unknown_no_truncation_is_odd(given: dict[str, Any]) -> None:
    assert found(**{"changes": [FIRST, SECOND, replace(CUT, offset=60)], **given}) == []


@pytest.mark.parametrize(
    "given",
    [
        {"isrs": [(1, (1, 2)), (30, ()), (35, (3,))]},
        {"isrs": [(1, (1, 2)), (30, (3,))], "lane": replace(LANE, unclean_leader_election=True)},
    ],
    ids=["eligible replicas", "unclean election"],
)
def test_a_leader_may_come_from_outside_of_the_isr(given: dict[str, Any]) -> None:
    assert found([FIRST, SECOND], **given) == []


@pytest.mark.parametrize(
    "given",
    [
        {"outside": {"a": ("kill",)}},
        {"faults": None},
        {"phases": {}},
        {"lane": replace(LANE, kafka_version="2.7.2")},
        {"fault": replace(PAUSE, kind="reassignment")},
    ],
    ids=["faults of others", "no events", "no load", "before 2.8", "reassignment"],
)
def test_where_the_model_does_not_know_what_happened_it_explains_all(given: dict[str, Any]) -> None:
    assert found([FIRST, SECOND, elected(35 * MS, 3, 1, 100, ISR)], **given) == []
