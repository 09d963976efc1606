"""A helper process that answers some commands late."""

import sys
import time
from typing import Any

from kafka_chaos.faults.helper import Commands


def do(what: str, values: dict[str, Any]) -> Any:
    time.sleep(values["late"])
    return what


if __name__ == "__main__":
    commands = Commands(do)
    while not commands.read():
        pass
    sys.exit(0)
