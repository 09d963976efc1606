"""A cluster's links: every connection to a broker or controller passes a process that knows Kafka's frames.

Guarantee: from `attach` on, nobody talks to the node past its link. Links end with `close`, and with this process
however it ends. They leave nothing behind: their process removes the rules of containers that live on, and a container
that starts again has a network namespace without rules. See docs/decisions/0043-links.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure, first_line
from kafka_chaos.faults.helper import Helper
from kafka_chaos.faults.links.relay.rules import Rule
from kafka_chaos.faults.parts import LinkControl

_PROCESS = "kafka_chaos.faults.links.relay.process"


class Links:
    """The links of one cluster. `names`: its host names by address; `ports`: those of its Kafka listeners."""

    def __init__(self, names: Mapping[str, str], ports: Sequence[int]) -> None:
        self._process = Helper(_PROCESS, "links", {"names": dict(names), "ports": list(ports)})
        self.ask = self._process.ask

    def of(self, node: str) -> NodeLink:
        """The link of one node."""
        return NodeLink(self, node)

    def trace_to(self, path: Path | None, *, controllers: bool = False) -> None:
        """Record what passes in this file (JSON lines), in place of another; None ends it, all being written.

        `controllers`: also the whole `request` and `answer` of what controllers ask brokers in ZooKeeper mode.
        """
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self.ask("trace", path=None if path is None else str(path), controllers=controllers)

    def counts(self) -> dict[str, int]:
        """How much has passed, how much of it could not be read, what waits now, and what controllers asked without an
        answer so far (`unanswered`)."""
        found: dict[str, int] = self.ask("counts")
        return found

    def close(self) -> None:
        """Take every link away; what waits is lost."""
        self._process.close()


class NodeLink(LinkControl):
    """The link of one node."""

    def __init__(self, links: Links, node: str) -> None:
        self._links = links
        self._node = node

    def attach(self, pid: int) -> None:
        """Let every connection to the node pass: `pid` is that of its process."""
        self._links.ask("attach", node=self._node, pid=pid)

    def detach(self) -> None:
        """Take the link away."""
        self._links.ask("detach", node=self._node)

    def apply(self, rule_id: str, **frames: Any) -> None:
        """Let a rule begin, unless it has begun; `frames` are the fields of `Rule`."""
        rule = Rule(id=self._named(rule_id), node=self._node, **frames)
        self._links.ask("apply", rule=asdict(rule))

    def lift(self, rule_id: str, *, release: bool) -> None:
        self._links.ask("lift", rule=self._named(rule_id), release=release)

    def tally(self, rule_id: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._links.ask("tally", rule=self._named(rule_id))
        return found

    def _named(self, rule_id: str) -> str:
        return f"{self._node}/{rule_id}"


def try_link(pid: int) -> str | None:
    """Attach a link to a process's namespace and take it away: why that failed, and what to do; None where it works."""
    links = Links({}, (9092,))
    try:
        links.of("trial").attach(pid)
    except ClusterFailure as failure:
        problem = first_line(failure).replace(": ", ", ")
        return f"{problem}: load the kernel's modules iptable_nat, xt_REDIRECT and xt_mark"
    finally:
        links.close()
    return None
