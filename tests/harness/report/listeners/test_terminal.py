"""A run prints a line for each event."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.command.progress import progress
from kafka_chaos.contract.events import Event
from kafka_chaos.harness.report.listeners.terminal import TerminalListener
from kafka_chaos.harness.report.listeners.waiting import Waiting
from kafka_chaos.verification import Observation, RunVerdict
from kafka_chaos.verification.telling import describe_prediction, print_verdict
from tests.verification.samples.verdicts import lane_verdict

KILL = event_types.FaultRequested(
    fault_id="a/kill-1", kind="kill", target="leader(a)", resolved=("broker-1",), lanes=("a",), parameters={}
)


def printed(*events: Event) -> str:
    console = Console(file=io.StringIO(), width=150)
    with TerminalListener(console) as listener:
        for event in events:
            listener(event)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (event_types.Step(text="starting 3 brokers"), "starting 3 brokers"),
        (event_types.ClusterReady(seconds=3.6, bootstrap_servers="x", network="n", bootstrap_servers_in_network="y"),
         f"3.6 s\n{' ' * 10}bootstrap.servers=x\n{' ' * 10}in containers of the network n: bootstrap.servers=y"),
        (KILL, "kill leader(a) = broker-1"),
        (event_types.RunStarted(run_id="r", experiment="x", lanes=("a",)), "run r: 1 lane\n"),
        (event_types.RunStarted(run_id="r", experiment="x", lanes=("a", "b")), "run r: 2 lanes\n"),
        (event_types.FaultProven(fault_id="a/lockstep", evidence={"steps": ["append"]}),
         "a/lockstep ended: every step took effect"),
        (event_types.FaultNotProven(fault_id="a/kill-1", reason="no packet [yet]"), "has no proof: no packet [yet]"),
        (event_types.LeaderChanged(lane="a", partition=0, before=1, leader=None), "leader of a-0: broker 1 → nobody"),
        (event_types.ControllerChanged(before=1, controller=3), "controller: broker 1 → 3"),
        (event_types.ControllerChanged(before=101, controller=103), "controller: controller-1 → controller-3"),
    ],
)  # fmt: skip
def test_an_event_is_a_line(event: Event, expected: str) -> None:
    assert expected in printed(event)


def test_of_many_leaders_that_change_at_once_some_are_named_and_the_rest_is_counted() -> None:
    moves = [event_types.LeaderChanged(lane="a", partition=n, before=1, leader=2 + n % 2) for n in range(40)]
    later = event_types.LeaderChanged(lane="a", partition=40, before=2, leader=3)
    text = printed(*moves, event_types.Progress(counts={}), later)
    assert text.count("leader of a-") == 9
    assert "leaders of 32 further partitions: broker 1 → broker 2 (16), broker 1 → broker 3 (16)" in text
    assert "further" not in printed(*moves[:8], event_types.Step(text="settled"))


def test_the_live_view_has_each_state_of_a_fault_however_short_it_is() -> None:
    console = Console(file=io.StringIO(), width=150, force_terminal=True)
    with TerminalListener(console) as listener:
        listener(KILL)
        listener(event_types.FaultProven(fault_id="a/kill-1", evidence={}))
        listener(event_types.FaultHealed(fault_id="a/kill-1"))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())  # type: ignore[attr-defined]
    for state in ("requested", "took effect", "healed"):
        assert f"{state:11} kill leader(a) = broker-1 (" in shown


def test_a_kept_cluster_comes_with_advice() -> None:
    text = printed(
        event_types.ClusterKept(
            run_id="r", containers=("zk", "kafka-chaos-r-broker-1"), bootstrap_servers="127.0.0.1:1"
        )
    )
    assert "docker logs kafka-chaos-r-broker-1" in text
    assert "kafka-chaos clean --kept" in text


def test_the_table_shows_lost_duplicated_predicted_and_observed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    predicted = dict.fromkeys(Anomaly, Status.FORBIDDEN) | {
        Anomaly.LOST_WRITE: Status.REQUIRED,
        Anomaly.DUPLICATE: Status.PERMITTED,
    }
    counts = {"produced": 12_345, "acknowledged": 12_300, "consumed": 12_000}
    lane = lane_verdict("acks1", **counts, predicted=predicted, observed={Anomaly.LOST_WRITE: Observation(count=300)})
    monkeypatch.setenv("COLUMNS", "150")
    print_verdict(RunVerdict(Path("runs/x"), Verdict.CONFORMS, (lane,)), {"acks1": 7.04})
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if "acks1" in line)
    for cell in ("12,345", "12,300", " 300 ", " 0 ", "7.0 s", "loss required", "lost_write 300 (required)", "conforms"):
        assert cell in row


def test_what_is_not_judged_has_no_prediction_in_the_table() -> None:
    removed = {Anomaly.LOST_WRITE: "cleanup.policy=delete removes records"}
    lane = lane_verdict("short", predicted=dict.fromkeys(Anomaly, Status.FORBIDDEN), not_judged=removed)
    assert describe_prediction(lane) == "loss not judged\nduplicates forbidden"


def test_without_a_terminal_only_what_is_said_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting("nothing of this") as waiting:
        waiting.say("fetching")
        progress(1, 2, "nor of this")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "kafka-chaos: fetching\n")
