"""The process that serves a cluster's links, told what to do by JSON lines on its standard input.

It answers each with one line. When its standard input ends, so does it, and takes every link away before: whoever
started it need not live to do so.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from kafka_chaos.contract.errors import KafkaChaosError
from kafka_chaos.harness.cluster.links.relay import Relay
from kafka_chaos.harness.cluster.links.rules import Rule

_STDIN, _STDOUT = 0, 1


class Commands:
    """Serves commands from standard input; `is_over` once that has ended."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._left = b""
        self.is_over = False

    def read(self, _: int) -> None:
        """Serve what has come."""
        piece = os.read(_STDIN, 1 << 16)
        if not piece:
            self.is_over = True
            return
        *lines, self._left = (self._left + piece).split(b"\n")
        for line in lines:
            answer = json.dumps(self._answer(json.loads(line)), default=str) + "\n"
            os.write(_STDOUT, answer.encode())

    def _answer(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"ok": self._do(command.pop("do"), command)}
        except (KafkaChaosError, OSError) as error:
            return {"error": str(error)}
        except Exception:  # noqa: BLE001 - told to whoever asked, who raises it
            return {"error": traceback.format_exc()}

    def _do(self, what: str, values: dict[str, Any]) -> Any:
        relay = self._relay
        match what:
            case "attach":
                relay.attach(values["node"], values["pid"])
            case "detach":
                relay.detach(values["node"])
            case "apply":
                relay.apply(Rule.from_json(values["rule"]))
            case "lift":
                relay.lift(values["rule"], release=values["release"])
            case "tally":
                tally = relay.tally(values["rule"])
                return None if tally is None else tally.to_json()
            case "trace":
                relay.trace_to(Path(values["path"]) if values["path"] else None)
            case "counts":
                counts = relay.counts
                return {
                    **{name: getattr(counts, name) for name in counts.__slots__},
                    "connections": len(relay.connections),
                    "waiting": relay.waiting,
                }
            case _:
                raise ValueError(f"{what!r} is no command")
        return None


def main() -> None:
    """Serve until standard input ends. The first line says which nodes there are, and on which ports they listen."""
    # Ctrl-C reaches every process of the terminal; the harness decides when links end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start = json.loads(sys.argv[1])
    relay = Relay(start["names"], start["ports"])
    commands = Commands(relay)
    relay.serve(_STDIN, commands.read)
    try:
        while not commands.is_over:
            relay.run_once()
    finally:
        relay.close()


if __name__ == "__main__":
    main()
