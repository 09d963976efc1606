"""Signals that ask a run to end: held back where they would be misread, never lost, distinguished from errors."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_chaos.harness.signals import CLIENT_NICE, END_SIGNALS, new_client, signals_held_back
from tests.harness.signals import NOT_IGNORING


@pytest.fixture(autouse=True)
def _as_in_the_foreground() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class KeyWithSignal(str):
    """A config's key whose reading meets a signal, as any reading may: `PyObject_Str` runs the handlers."""

    def __str__(self) -> str:
        signal.raise_signal(signal.SIGINT)
        return str.__str__(self)


@pytest.mark.parametrize("number", END_SIGNALS)
def test_a_signal_waits_for_the_end_of_the_block(number: signal.Signals) -> None:
    got: list[int] = []
    before = signal.signal(number, lambda number, frame: got.append(number))
    try:
        with signals_held_back():
            signal.raise_signal(number)
            assert got == []
        assert got == [number]
        signal.raise_signal(number)
        assert got == [number, number]
    finally:
        signal.signal(number, before)


def test_a_client_is_made_before_the_interrupt_is_delivered() -> None:
    made = []

    def make(configs: dict[str, object]) -> Producer:
        made.append(Producer(configs))
        return made[0]

    with pytest.raises(KeyboardInterrupt):
        new_client(make, {KeyWithSignal("client.id"): "a", "log_level": 0})
    assert len(made) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="threads have nice values of their own on Linux alone")
def test_the_threads_of_a_client_yield_to_brokers_and_no_other() -> None:
    def nice(_: object) -> int:
        return os.getpriority(os.PRIO_PROCESS, 0)

    before = nice({})
    assert (new_client(nice, {}), nice({})) == (max(CLIENT_NICE, before), before)


def ended(body: str, *by: str) -> subprocess.CompletedProcess[str]:
    """Runs a process, by another program or not, whose command is `body`, between `main`'s handlers and its answers."""
    program = """
        import os, signal, time
        from kafka_chaos.harness.cli import main as cli
        from kafka_chaos.harness.cluster.containers import labels
        from kafka_chaos.contract.command.errors import ClusterFailure
        from kafka_chaos.harness.attached.journal import BreakJournal, ShellCommand

        def run(**arguments):
        {body}

        labels.STARTED_RUNS.add("a run of this process")
        cli.invoke = lambda *arguments: run()
        cli.main()
    """
    text = textwrap.dedent(program).replace("{body}", textwrap.indent(textwrap.dedent(body), "    "))
    return subprocess.run(
        [*NOT_IGNORING, *by, sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )


IN_A_FINALIZER = """
class Late:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
late = Late()
del late
time.sleep(30)
"""


@pytest.mark.parametrize(
    "body", [*(f"os.kill(os.getpid(), {int(one)}); time.sleep(30)" for one in END_SIGNALS), IN_A_FINALIZER]
)
def test_every_ending_signal_ends_the_command(body: str) -> None:
    process = ended(body)
    assert process.returncode == 130, process.stderr
    assert process.stderr == "kafka-chaos: interrupted; everything that was started is removed\n"


@pytest.mark.parametrize("error", ["TypeError('expected a name')", "ClusterFailure('broker-1 was not healed')"])
def test_an_interrupt_that_became_another_error_is_reported_as_one(error: str) -> None:
    process = ended(
        f"""
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise {error} from None
        """
    )
    assert process.returncode == 130
    assert f"interrupted; the interrupt caused {error}; `kafka-chaos clean`" in process.stderr


def test_an_interrupt_that_left_an_attached_cluster_broken_says_so(tmp_path: Path) -> None:
    process = ended(
        f"""
        os.environ["KAFKA_CHAOS_STATE"] = "{tmp_path}"
        BreakJournal("attached").note_broken(ShellCommand("broker-1: start", "true", 1, {{}}))
        raise KeyboardInterrupt
        """
    )
    assert (
        process.stderr
        == "kafka-chaos: interrupted; the attached cluster is still broken: `kafka-chaos clean` heals it\n"
    )


def test_a_signal_that_the_process_ignores_stays_ignored() -> None:
    process = ended("os.kill(os.getpid(), signal.SIGHUP); print('went on')", "nohup")
    assert process.returncode == 0, process.stderr
    assert "went on" in process.stdout
