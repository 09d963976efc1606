"""The harness's side of a cluster's links: a process through which every connection to brokers or controllers passes.

Guarantee: from `attach` on, no connection bypasses the node's link. Links end with `close`, and with this process
however it ends. They leave nothing behind: their process removes its packet filter rules from running containers, and a
container that starts again has a network namespace without rules. See docs/decisions/0043-links.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure, first_line
from kafka_chaos.faults.cluster import LinkControl
from kafka_chaos.faults.helper import Helper
from kafka_chaos.faults.links.relay.rules import Rule

_PROCESS = "kafka_chaos.faults.links.relay.process"


class Links:
    """The links of one cluster. `names`: its host names by address; `ports`: the ports of its Kafka listeners."""

    def __init__(self, names: Mapping[str, str], ports: Sequence[int]) -> None:
        self._process = Helper(_PROCESS, "links", {"names": dict(names), "ports": list(ports)})
        self.ask = self._process.ask

    def link_to(self, node: str) -> NodeLink:
        """The link of one node."""
        return NodeLink(self, node)

    def trace_to(self, path: Path | None, *, controllers: bool = False) -> None:
        """Write requests and their answers to this file (JSON lines) from now on, and no longer to an earlier file.

        None ends the trace; the file is complete then. `controllers`: also write the whole bodies (`request` and
        `answer`) of requests from controllers to brokers in ZooKeeper mode.
        """
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self.ask("trace", path=None if path is None else str(path), controllers=controllers)

    def counts(self) -> dict[str, int]:
        """The fields of `Counts`, with the numbers of open `connections`, of frames that wait (`waiting`), and of
        requests of controllers that have no answer yet (`unanswered`)."""
        counts: dict[str, int] = self.ask("counts")
        return counts

    def close(self) -> None:
        """Remove every link; frames that wait are lost."""
        self._process.close()


class NodeLink(LinkControl):
    """The link of one node."""

    def __init__(self, links: Links, node: str) -> None:
        self._links = links
        self._node = node

    def attach(self, pid: int) -> None:
        """Let every connection to the node pass the link; `pid` is the id of the node's process."""
        self._links.ask("attach", node=self._node, pid=pid)

    def detach(self) -> None:
        """Remove the link."""
        self._links.ask("detach", node=self._node)

    def apply(self, rule_id: str, **rule: Any) -> None:
        """Add a rule, unless a rule with this id exists; the keywords are the other fields of `Rule`."""
        whole_rule = Rule(id=self._global_id(rule_id), node=self._node, **rule)
        self._links.ask("apply", rule=asdict(whole_rule))

    def lift(self, rule_id: str, *, release: bool) -> None:
        self._links.ask("lift", rule=self._global_id(rule_id), release=release)

    def tally(self, rule_id: str) -> Mapping[str, Any] | None:
        tally: Mapping[str, Any] | None = self._links.ask("tally", rule=self._global_id(rule_id))
        return tally

    def _global_id(self, rule_id: str) -> str:
        """The rule's id among the rules of all links."""
        return f"{self._node}/{rule_id}"


def try_link(pid: int) -> str | None:
    """Attach a link to a process's namespace as a trial, and remove the link. Returns why that failed and what to do
    about it; None if it worked."""
    links = Links({}, (9092,))
    try:
        links.link_to("trial").attach(pid)
    except ClusterFailure as failure:
        problem = first_line(failure).replace(": ", ", ")
        if not Path(f"/proc/{pid}").exists():
            return f"{problem}: run kafka-chaos where it sees the engine's processes (in a container: --pid=host)"
        return f"{problem}: load the kernel's modules iptable_nat, xt_REDIRECT and xt_mark"
    finally:
        links.close()
    return None
