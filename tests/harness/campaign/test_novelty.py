"""An observation is the same text in each run that shows it, whatever its numbers, ids and addresses are."""

from pathlib import Path

import pytest

from kafka_chaos.harness.campaign.hunting import lines_of, normalised, observations_of
from tests.harness.report.activity_runs import table
from tests.harness.report.report_runs import event, write

LANE = {"lane": "orders", "topic": "orders-3f-1", "acks": "all", "client": "sarama 1.43.3", "faults": ["kill"]}


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("[2026-11-25 07:31:02,476] INFO Epoch 7 of orders-3f-1-0", "[2026-11-26 08:00:00,001] INFO Epoch 12 of a-9-4"),
        ("Connection at 127.0.0.1:16649 closed", "Connection at 127.0.0.1:901 closed"),
        ("ISR updated to 1,2,3", "ISR updated to 2, 3"),
        ("session 0x1000106627b0000 expired", "session 0x2 expired"),
    ],
)
def test_what_varies_is_taken_out(one: str, another: str) -> None:
    assert normalised(one) == normalised(another)
    assert "#" in normalised(one)


def test_a_line_is_told_once_as_it_was_first_and_without_what_explains_a_line_before_it(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "broker-1.log").write_text(
        "[2026-11-25 07:31:02,476] TRACE all is well\n"
        "[2026-11-25 07:31:02,477] ERROR bad offset 1 (Log)\n\tat kafka.Log\n"
        "[2026-11-25 07:31:02,478] ERROR bad offset 2 (Log)\n"
    )
    [(name, lines)] = lines_of(tmp_path).items()
    assert (name, list(lines.values())) == ("broker-1", ["[2026-11-25 07:31:02,477] ERROR bad offset 1 (Log)"])


def test_actions_states_errors_and_lines_are_told_in_one_way(tmp_path: Path) -> None:
    place = {"lane": "orders", "partition": 0}
    fault = {"fault_id": "main/kill-1", "kind": "kill", "target": "broker:1", "resolved": ["broker-1"]}
    events = [
        event(10, "leader_elected", **place, broker=1, leader_epoch=0, start_offset=0, isr=[1, 2, 3]),
        event(11, "isr_changed", **place, before=[], isr=[1, 2, 3]),
        event(20, "fault_requested", **fault, lanes=["orders"], parameters={}),
        event(30, "isr_changed", **place, before=[1, 2, 3], isr=[2, 3]),
    ]
    run = write(tmp_path / "run", [LANE], [], events=events)
    sent = {"lane": "orders", "producer_id": 0, "seq": 0, "invoke_ns": 0}
    table(run, "produced", [{**sent, "outcome": "ok"}, {**sent, "outcome": "info", "error": "code 7"}])
    (run / "logs").mkdir()
    (run / "logs" / "client-orders-0-producer.log").write_text("lost broker 3\n")
    assert observations_of(run) == {
        "sarama 1.43.3, orders: acknowledge", "sarama 1.43.3, orders: give_up", "sarama 1.43.3, orders: info code #",
        "sarama 1.43.3, orders: ok None", "sarama 1.43.3, orders: shrink_isr", "ISR of 3 during no fault",
        "ISR of 2 during kill", "a new leader during no fault", "client: lost broker #",
    }  # fmt: skip
