"""The kinds that act on single requests and responses: which ones, and whether this machine can have links.

Such a kind says so by `needs_links`. Where a schedule has one, every connection to a broker or controller passes a link
from the start of the cluster on, so that a fault neither breaks connections nor misses one.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt

from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, at_once, mark
from kafka_chaos.faults.machine import why_not_inside
from kafka_chaos.faults.parts import LinkControl

CLIENTS = "clients"

_SENDER = re.compile(r"clients|brokers|controller|controllers|(?:broker|controller):(?P<number>\d+)")
_SENDERS = "clients, brokers, broker:ID, controller, controllers or controller:NUMBER"
_SHOWN_IDS = 5


def why_no_links() -> str | None:
    """Why there can't be links on this machine, and what would be needed; None where there can."""
    if (reason := why_not_inside("links")) is not None:
        return reason
    if shutil.which("nsenter") is None:
        return "nsenter not found in PATH: install util-linux"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnFrames(Fault):
    """Which requests to the targets a fault means, or which responses of theirs; what is left out means any.

    `api` is Kafka's name of the request, such as `EndTxn`. `sender` is who sends the request (and gets the response):
    `clients`, `brokers`, `broker:2`, `controller`, `controllers` or `controller:1`; `client_id` its `client.id`, which
    for a lane's producer is LANE-NUMBER. `lane`, `partition` and `transactional_id`: what the request speaks of.
    `nth`: that frame alone, counted from 1 on each target since the fault began.
    """

    api: str | None = None
    side: Literal["request", "response"] = "request"
    sender: str | None = None
    client_id: str | None = None
    lane: str | None = None
    partition: int | None = None
    transactional_id: str | None = None
    nth: Annotated[int, Ge(1)] | None = None
    # Of each broker hit, from clients or from other nodes: what is late or lost looks so to them.
    counts_as: ClassVar[str] = "partition"
    needs_links: ClassVar[bool] = True
    # As with a partition: it need not wait for faults that end or start the process.
    ends_with_process: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.sender is not None and not _SENDER.fullmatch(self.sender):
            raise ValueError(f"sender: {self.sender!r} is not valid: expected {_SENDERS}")

    unavailable = staticmethod(why_no_links)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Let the rule begin on the targets."""
        frames = {
            "side": self.side,
            "api": self.api,
            "sender": self._senders(cluster),
            "client_id": self.client_id,
            "topic": None if self.lane is None else cluster.topic(self.lane),
            "partition": self.partition,
            "transactional_id": self.transactional_id,
            "nth": self.nth,
            **self._action(),
        }
        at_once(nodes, lambda node: link_of(node).apply(mark(self), **frames))

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """One of the targets got such a frame."""
        tallies = {node.name: link_of(node).tally(mark(self)) for node in nodes}
        evidence = {name: self._evidence(tally) for name, tally in tallies.items() if tally and tally["taken"]}
        if evidence:
            return Proof(True, evidence)
        named = sum(tally["named"] for tally in tallies.values() if tally)
        what = f"{self.api or 'any'} {self.side}"
        return Proof(False, {}, f"{counted(named, f'such {what}')} passed, none was the one" if named else f"no {what}")

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        link_of(node).lift(mark(self), release=self._releases())

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """How many frames it was, and which."""
        told = evidence["told"]
        apis = " and ".join(sorted({one["api"] for one in told}))
        ids = [str(one["correlation_id"]) for one in told[:_SHOWN_IDS]]
        more = ", …" if evidence["frames"] > len(ids) else ""
        what = counted(evidence["frames"], f"{apis} {evidence['side']}")
        return f"{what} {evidence['fate']}, correlation ids {', '.join(ids)}{more}"

    def _action(self) -> dict[str, Any]:
        """The action on the frames, as a link's rule states it."""
        return {"action": self.kind}

    def _releases(self) -> bool:
        return True

    def _evidence(self, tally: Mapping[str, Any]) -> dict[str, Any]:
        fates = {"hold": "held", "delay": "delayed", "rate": "slowed", "drop": "lost", "cut": "cut off"}
        return {"frames": tally["taken"], "side": self.side, "fate": fates[self.kind], "told": tally["told"]}

    def _senders(self, cluster: ClusterControl) -> tuple[str, ...]:
        if self.sender is None or self.sender == CLIENTS:
            return () if self.sender is None else (CLIENTS,)
        nodes = {node.number: node for node in (*cluster.brokers.values(), *cluster.controllers.values())}
        match self.sender.partition(":"):
            case "brokers", _, _:
                return tuple(node.name for node in cluster.brokers.values())
            case "controllers", _, _:
                return tuple(node.name for node in cluster.controllers.values())
            case "controller", _, "":
                active = cluster.controller()
                return () if active is None else (nodes[active].name,)
            case role, _, number:
                return ((cluster.brokers if role == "broker" else cluster.controllers)[int(number)].name,)


def link_of(node: NodeControl) -> LinkControl:
    """The link of a node; raises `UsageFailure` if it has none."""
    if node.link is None:
        raise UsageFailure(f"connections to {node.name} pass no link: start the cluster with links")
    return node.link


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(OnFrames):
    """Break the connection: with `side: request` as soon as the request has gone on to the target, which handles it;
    with `side: response` as soon as the target has answered. Whoever asked learns nothing either way. Its proof: the
    frames after or before which it was cut, counted, with their correlation ids."""

    kind: ClassVar[str] = "cut"
    appearance: ClassVar[Appearance] = Appearance("#2f6b3a", "#8fd19e", Pattern.CROSSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(OnFrames):
    """Let requests to the targets, or their responses, arrive `seconds` later, but at the fault's end at the latest.
    What comes after one on its connection waits behind it. Its proof: the frames delayed, counted, with their
    correlation ids."""

    seconds: Annotated[float, Gt(0)] = 1.0
    kind: ClassVar[str] = "delay"
    appearance: ClassVar[Appearance] = Appearance("#7a5c00", "#d9b84a", Pattern.LINES)

    def _action(self) -> dict[str, Any]:
        return {"action": self.kind, "seconds": self.seconds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(OnFrames):
    """Lose requests to the targets, or their responses. All that follows one in its direction of its connection is lost
    with it, as in a network that swallows packets, until its sender gives the connection up; those left at the fault's
    end are closed. Its proof: the frames lost, counted, with their correlation ids."""

    kind: ClassVar[str] = "drop"
    appearance: ClassVar[Appearance] = Appearance("#a8324a", "#f093a5", Pattern.BACK_DIAGONALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(OnFrames):
    """Hold requests to the targets, or their responses, until the fault ends. `then` is what happens to them at the
    end: `release` or `drop`. What comes after one on its connection waits behind it. Whoever sent it may have given
    up by then; it arrives all the same. Its proof: the frames held, counted, with their correlation ids."""

    then: Literal["release", "drop"] = "release"
    kind: ClassVar[str] = "hold"
    appearance: ClassVar[Appearance] = Appearance("#6b4fa0", "#b9a3e3", Pattern.DOTS)

    def _releases(self) -> bool:
        return self.then == "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate(OnFrames):
    """Let at most `kbit_per_second` of the requests to each target arrive, or of its responses, all connections
    together. The rest waits for its turn, until the fault ends. Its proof: the frames that took so long, counted, with
    their correlation ids."""

    kbit_per_second: Annotated[float, Gt(0)] = 1000.0
    kind: ClassVar[str] = "rate"
    appearance: ClassVar[Appearance] = Appearance("#8c5a1f", "#e0b070", Pattern.DIAGONALS)

    def _action(self) -> dict[str, Any]:
        return {"action": self.kind, "kbit_per_second": self.kbit_per_second}
