"""The journal of what a run breaks in an attached cluster: the run notes the healing command before it breaks a node.

Guarantee: whatever a run has broken and not healed is in its journal, so that `kafka-chaos clean`, or the next attached
run, can heal it without the file that lists the nodes. Only this user can read a journal: commands may hold secrets.

A command that takes longer than its time-out is ended, with the processes that it started. Messages name the node and
the command's key in the file of nodes, such as `broker-1: kill`, and show the end of the output, never the command.
"""

import itertools
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.journal import JournalFile, journaled_runs
from kafka_chaos.harness.cluster.containers.labels import owner_is_alive, run_labels

_SHOWN_CHARACTERS = 200
"""How much of a failed command's last line of output a message shows."""
_JOURNAL_KIND = "attached"


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command for `sh -c`. `what` names it in messages, such as `broker-1: kill`."""

    what: str
    text: str
    timeout: float
    environment: Mapping[str, str]

    def run(self) -> str:
        """Run the command, and return its output.

        Raises `ClusterFailure` if it ends with another exit code than 0, or does not end within `timeout` seconds.
        """
        # A session of its own: Ctrl-C must not reach the command, since the run still has to heal; and after a time-out
        # all processes of the session are ended.
        process = subprocess.Popen(
            ["/bin/sh", "-c", self.text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.environment},
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            raise ClusterFailure(f"{self.what}: the command did not end within {self.timeout:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        text = output.decode(errors="replace").strip()
        if process.returncode != 0:
            last = text.rpartition("\n")[2][-_SHOWN_CHARACTERS:] or "no output"
            raise ClusterFailure(f"{self.what}: the command ended with exit code {process.returncode}: {last}")
        return text


@dataclass
class BreakJournal:
    """The journal of one run. Its file is made before anything is broken, and removed when everything is healed."""

    run_id: str
    _broken: set[int] = field(default_factory=set)
    """The numbers of what is broken and not healed yet."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_broken(self, healing: ShellCommand) -> int:
        """Note the command that heals what is broken next; returns the number for `note_healed`."""
        with self._lock:
            file, number = JournalFile(_JOURNAL_KIND, self.run_id), next(self._numbers)
            if not self._broken:
                file.begin({"step": "begin", "labels": run_labels(self.run_id, keep=False)})
            self._broken.add(number)
            file.note({"step": "broken", "number": number, **asdict(healing)})
            return number

    def note_healed(self, number: int) -> None:
        """Note that the fault with this number is healed; if it was the last one, remove the file."""
        with self._lock:
            file = JournalFile(_JOURNAL_KIND, self.run_id)
            self._broken.discard(number)
            if self._broken:
                file.note({"step": "healed", "number": number})
            else:
                file.end()


def heal_abandoned() -> list[str]:
    """Heal what dead runs left broken, the latest fault of a run first; returns the names of commands that succeeded.

    Every command is tried. Then the first `ClusterFailure` is raised; the journals of runs with a failure stay.
    """
    healed: list[str] = []
    failures: list[ClusterFailure] = []
    for run_id in journaled_runs(_JOURNAL_KIND):
        file = JournalFile(_JOURNAL_KIND, run_id)
        lines = file.lines()
        if not lines or owner_is_alive(lines[0]["labels"]):
            continue
        failures_before = len(failures)
        for healing in reversed(_unhealed(lines)):
            try:
                healing.run()
                healed.append(healing.what)
            except ClusterFailure as failure:
                failures.append(ClusterFailure(f"{failure}; the healing commands are in {file.path}"))
        if len(failures) == failures_before:
            file.end()
    if failures:
        raise failures[0]
    return healed


def _unhealed(lines: list[dict[str, object]]) -> list[ShellCommand]:
    healed = {line["number"] for line in lines if line["step"] == "healed"}
    keys = ("what", "text", "timeout", "environment")
    broken = [line for line in lines if line["step"] == "broken" and line["number"] not in healed]
    return [ShellCommand(*(line[key] for key in keys)) for line in broken]  # type: ignore[arg-type]
