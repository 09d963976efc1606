"""A client that is a process and acknowledges all, but for what a test has it do instead."""

import sys
from pathlib import Path

from kafka_chaos.contract.events import ClientFailed, ClientStarted
from kafka_chaos.harness.workload.client_process import EventHandler, SupervisedProcess

CLIENT = """
import json, os, signal, sys, time
begin = json.loads(sys.stdin.readline())
assert begin["order"] == "begin" and begin["protocol"] == 1
def tell(event, **values):
    print(json.dumps({"event": event, **values}), flush=True)
def ok(order, **more):
    seqs = list(range(order["first_seq"], order["first_seq"] + order["count"]))
    tell("outcome", outcome="ok", seq=seqs, **{"offset": [seq // 2 for seq in seqs], **more})
def produced(order):
    ok(order)
def committed():
    tell("transaction", did="commit")
def aborted():
    tell("transaction", did="abort")
def left():
    pass
%s
tell("ready", client="fake", version="1.2")
%s
for line in sys.stdin:
    order = json.loads(line)
    if order["order"] == "produce":
        produced(order)
    elif order["order"] == "commit":
        committed()
    elif order["order"] == "abort":
        aborted()
    elif order["order"] == "leave":
        left()
        sys.exit(0)
"""


class Started:
    """A process with the fake client; `behaviour` replaces functions of it, `before` runs before it is ready."""

    def __init__(self, behaviour: str, tmp_path: Path, *, before: str = "", version: str = "") -> None:
        self.problems: list[str] = []
        self.last_lines: tuple[str, ...] = ()
        self.ready: list[tuple[str, str]] = []
        self.notices: list[str] = []
        self._command = [sys.executable, "-c", CLIENT % (before, behaviour)]
        self._version = version
        self._log = tmp_path / "client.log"

    def __call__(self, handler: EventHandler) -> SupervisedProcess:
        def note(event: ClientStarted | ClientFailed) -> None:
            if isinstance(event, ClientStarted):
                self.ready.append((event.client, event.version))
            else:
                self.problems.append(event.problem)
                self.last_lines = event.last_lines

        self.process = SupervisedProcess(
            self._command, {"role": "producer", "lane": "orders"}, handler, name="fake",
            on_notice=self.notices.append, emit=note, version=self._version, log=self._log,
        )  # fmt: skip
        return self.process
