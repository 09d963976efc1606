"""The process that serves a cluster's links, told what to do on its standard input (`faults/helper.py`).

When that ends, it takes every link away, and ends.
"""

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from kafka_chaos.faults.helper import STDIN, Commands
from kafka_chaos.faults.links.relay.relay import Relay
from kafka_chaos.faults.links.relay.rules import Rule


def _do(relay: Relay, what: str, values: dict[str, Any]) -> Any:
    match what:
        case "attach":
            relay.attach(values["node"], values["pid"])
        case "detach":
            relay.detach(values["node"])
        case "apply":
            relay.apply(Rule(**values["rule"]))
        case "lift":
            relay.lift(values["rule"], release=values["release"])
        case "tally":
            tally = relay.tally(values["rule"])
            return None if tally is None else tally.to_json()
        case "trace":
            relay.trace_to(Path(values["path"]) if values["path"] else None, controllers=values["controllers"])
        case "counts":
            return {
                **asdict(relay.context.counts),
                "connections": len(relay.connections),
                "waiting": relay.waiting,
                "unanswered": relay.unanswered,
            }
        case _:
            raise ValueError(f"{what!r} is no command")
    return None


def main() -> None:
    """Serve until standard input ends. The first line says which nodes there are, and on which ports they listen."""
    start = json.loads(sys.argv[1])
    relay = Relay(start["names"], start["ports"])
    try:
        relay.serve(STDIN, Commands(partial(_do, relay)).read)
    finally:
        relay.close()


if __name__ == "__main__":
    main()
