"""The program of a group's member: a process that speaks the client protocol.

It lives no longer than the harness: when its standard input ends, it dies.
"""

import json
import logging
import os
import signal
import sys
import traceback
from typing import Any

from confluent_kafka import Consumer, libversion

from kafka_chaos.contract.command.errors import ExitCode
from kafka_chaos.harness.workload.groups.loop import LoopProcessing
from kafka_chaos.harness.workload.groups.member import CommandInbox, Member, MemberLost
from kafka_chaos.harness.workload.groups.settings import REPLACE_ME, MemberSettings
from kafka_chaos.harness.workload.transactions.producer import ProducerLost

# The client logs what it also reports; a broken cluster would fill the terminal.
_SILENT = logging.Logger("kafka_chaos.member")
_SILENT.addHandler(logging.NullHandler())


def main() -> int:
    """Be a member until told to leave; the exit code."""
    # Ctrl-C reaches the whole process group: the harness decides when a member ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    settings = MemberSettings.from_json(json.loads(sys.stdin.readline()))
    inbox = CommandInbox(sys.stdin)

    def tell(kind: str, **values: Any) -> None:
        out.write(json.dumps({"event": kind, **values}, separators=(",", ":")) + "\n")
        out.flush()

    try:
        member = Member(settings, connect=lambda configs: Consumer(configs, logger=_SILENT), tell=tell, orders=inbox)
    except Exception:  # noqa: BLE001 - the harness raises it
        tell("error", text=traceback.format_exc())
        return ExitCode.BUG
    said: object = libversion()
    # In confluent-kafka 2.12.0, `libversion` returns the text alone.
    tell("ready", client="librdkafka", version=said if isinstance(said, str) else libversion()[0])
    try:
        if settings.output is not None:
            member.process = LoopProcessing(settings.output, member, _SILENT)
        member.run()
    except (ProducerLost, MemberLost) as lost:
        tell("notice", text=f"its {'producer' if isinstance(lost, ProducerLost) else 'consumer'} is lost: {lost}")
        member.leave()
        return REPLACE_ME
    except Exception:  # noqa: BLE001 - the harness raises it
        tell("error", text=traceback.format_exc())
        return ExitCode.BUG
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Clients that could not be closed must not delay the end.
    os._exit(code)
