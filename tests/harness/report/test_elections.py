"""Elections as the brokers log them beside what clients see, and leader epochs that skip a number."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import report_runs as runs

from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.report.timeline.events import explain_skipped_epochs, timeline_of

S = runs.SECOND
PLACE = {"lane": "orders", "partition": 0}


def run_with(path: Path, *events: Mapping[str, Any]) -> Path:
    started = runs.event(1, "phase_started", phase="load", lanes=["orders"])
    ended = runs.event(21, "phase_ended", phase="load")
    return runs.write(path / "run", [runs.lane("orders")], [runs.judged("orders")], events=[started, *events, ended])


def elected(seconds: float, broker: int, epoch: int) -> dict[str, Any]:
    return runs.event(
        seconds, "leader_elected", **PLACE, broker=broker, leader_epoch=epoch, start_offset=epoch * 10, isr=[broker]
    )


def controllers(*seen: tuple[float, int | None, int | None]) -> list[dict[str, Any]]:
    return [runs.event(at, "controller_changed", before=before, controller=now) for at, before, now in seen]


def explained(path: Path, *events: Mapping[str, Any]) -> list[str]:
    shown = timeline_of(read_evidence(run_with(path, *events)))
    return explain_skipped_epochs("orders", shown, 1 * S, 21 * S, 8)


def test_a_skipped_epoch_names_the_change_of_the_controller_that_the_events_show(tmp_path: Path) -> None:
    seen = controllers((1, None, 1), (6.5, 1, 3))
    assert explained(tmp_path, elected(1, 1, 0), elected(6, 2, 2), *seen) == [
        "Partition 0 goes from leader epoch 0 to 2 at 5 s: no broker logs that it became leader in epoch 1. "
        "In between, the controller changed from broker 1 to broker 3, as clients saw at 5.5 s."
    ]


@pytest.mark.parametrize(
    "events",
    [
        controllers((1, None, 1), (12, 1, 3)),
        controllers((1, None, 1), (4, None, 1)),
        [runs.event(0.5, "leader_changed", **PLACE, before=1, leader=None)],
        [runs.event(4, "leader_changed", lane="orders", partition=1, before=1, leader=None)],
    ],
)
def test_nothing_is_invented_where_the_events_do_not_show_why(
    tmp_path: Path, events: Sequence[Mapping[str, Any]]
) -> None:
    (sentence,) = explained(tmp_path, elected(1, 1, 0), elected(6, 2, 2), *events)
    assert sentence.endswith("in epoch 1. The events do not show why.")
