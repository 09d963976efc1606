"""The process that serves a cluster's links. It gets commands on its standard input (`faults/helper.py`).

At the end of standard input, the process removes every link and exits.
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


def _do(relay: Relay, command: str, values: dict[str, Any]) -> Any:
    match command:
        case "attach":
            relay.attach(values["node"], values["pid"])
        case "detach":
            relay.detach(values["node"])
        case "apply":
            relay.apply(Rule(**values["rule"]))
        case "lift":
            relay.lift(values["rule"], release=values["release"])
        case "tally":
            tally = relay.context.tallies.get(values["rule"])
            return None if tally is None else asdict(tally)
        case "trace":
            relay.trace_to(Path(values["path"]) if values["path"] else None, controllers=values["controllers"])
        case "counts":
            return {
                **asdict(relay.context.counts),
                "connections": len(relay.connections),
                "waiting": sum(pair.requests.waits + pair.responses.waits for pair in relay.connections),
                "unanswered": sum(pair.conversation.unanswered_controller_requests() for pair in relay.connections),
            }
        case _:
            raise ValueError(f"{command!r} is not a command")
    return None


def main() -> None:
    """Serve until standard input ends. The argument has the nodes' names by address, and their listeners' ports."""
    start = json.loads(sys.argv[1])
    relay = Relay(start["names"], start["ports"])
    try:
        relay.serve(STDIN, Commands(partial(_do, relay)).read)
    finally:
        relay.close()


if __name__ == "__main__":
    main()
