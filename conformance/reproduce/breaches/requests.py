"""The LeaderAndIsr requests that brokers have taken, read from the trace of the links."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEADER_AND_ISR = "LeaderAndIsr"


@dataclass
class TakenRequests:
    """The LeaderAndIsr requests about a topic that brokers have taken: answered without an error."""

    trace: Path
    topic: str
    _position: int = 0
    _taken: set[tuple[str, int]] = field(default_factory=set)

    def has(self, node: str, leader_epoch: int) -> bool:
        """Whether a node has taken what it was told of this leader epoch."""
        self._read()
        return (node, leader_epoch) in self._taken

    def _read(self) -> None:
        if not self.trace.exists():
            return
        with self.trace.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                self._note(json.loads(line))

    def _note(self, line: Mapping[str, Any]) -> None:
        if line["api"] != LEADER_AND_ISR or line["answered_ns"] is None or line.get("errors"):
            return
        self._taken |= {
            (line["node"], epoch) for topic, _, epoch in line.get("leader_epochs", ()) if topic == self.topic
        }
