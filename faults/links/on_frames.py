"""The fault kinds that act on single requests and responses, which Kafka's protocol sends as frames.

They set `needs_links`: if a schedule has one of them, every connection to a broker or controller passes a link, which
is a relay for frames, from the start of the cluster on. So a fault reaches all connections, and its start breaks none.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt

from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.faults.cluster import ClusterControl, LinkControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, run_on_all
from kafka_chaos.faults.machine import why_not_here

_SENDER = re.compile(r"clients|brokers|controller|controllers|(?:broker|controller):(?P<number>\d+)")
_SENDERS = "clients, brokers, broker:ID, controller, controllers or controller:NUMBER"
_MOST_SHOWN_IDS = 5  # correlation ids that a description names
_RULE_KEYS = ("seconds", "kbit_per_second", "error", "byte")  # keys of some kinds that `Rule` has, too


def why_no_links() -> str | None:
    """Why connections can't pass links on this machine, and what would be needed; None if they can."""
    mechanism, capabilities = "links are in the containers' network namespaces", "CAP_SYS_ADMIN and CAP_NET_ADMIN"
    if (reason := why_not_here(mechanism, capabilities=capabilities)) is not None:
        return reason
    if shutil.which("nsenter") is None:
        return "nsenter not found in PATH: install util-linux"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFault(Fault):
    """A fault that acts on requests to the targets, or on their responses: on all of them, or on those that its keys
    choose.

    `api` is Kafka's name of the request, such as `EndTxn`. `sender` sends the request (and gets the response): it is
    `clients`, `brokers`, `broker:2`, `controller`, `controllers` or `controller:1`. `client_id` is the sender's
    `client.id`: LANE-NUMBER for a lane's producer. `lane`, `partition` and `transactional_id` are those that the
    request names. `nth`: only the frame with this number, counted from 1 on each target since the fault began.
    """

    api: str | None = None
    side: Literal["request", "response"] = "request"
    sender: str | None = None
    client_id: str | None = None
    lane: str | None = None
    partition: int | None = None
    transactional_id: str | None = None
    nth: Annotated[int, Ge(1)] | None = None
    fate: ClassVar[str]
    """What happens to a frame that the fault takes, in the words of evidence and traces."""
    # To clients and other nodes, late or lost requests and responses look as if the broker was cut off from them.
    counts_as: ClassVar[str] = "partition"
    needs_links: ClassVar[bool] = True
    # True although the rules outlive the process: so this fault need not wait for faults that end the process.
    ends_with_process: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.sender is not None and not _SENDER.fullmatch(self.sender):
            raise ValueError(f"sender: {self.sender!r} is not valid: expected {_SENDERS}")

    unavailable = staticmethod(why_no_links)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Add the rule to the targets' links."""
        rule = {
            "side": self.side,
            "api": self.api,
            "sender": self._senders(cluster),
            "client_id": self.client_id,
            "topic": None if self.lane is None else cluster.topic(self.lane),
            "partition": self.partition,
            "transactional_id": self.transactional_id,
            "nth": self.nth,
            "action": self.kind,
            **{key: getattr(self, key) for key in _RULE_KEYS if hasattr(self, key)},
        }
        run_on_all(nodes, lambda node: link_of(node).apply(self.stable_name, **rule))

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Whether the rule has taken a frame on any target."""
        tallies = {node.name: link_of(node).tally(self.stable_name) for node in nodes}
        evidence = {name: self._evidence(tally) for name, tally in tallies.items() if tally and tally["taken"]}
        if evidence:
            return Proof(True, evidence)
        matched = sum(tally["matched"] for tally in tallies.values() if tally)
        frame = f"{self.api or 'any'} {self.side}"
        passed = f"only {counted(matched, f'such {frame}')} passed, and the fault takes number {self.nth}"
        return Proof(False, {}, passed if matched else f"no {frame}")

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        link_of(node).lift(self.stable_name, release=True)

    @classmethod
    def describe_evidence(cls, evidence: Mapping[str, Any]) -> str:
        """How many frames the fault took, what happened to them, and the correlation ids of the first frames."""
        told = evidence["told"]
        apis = " and ".join(sorted({frame["api"] for frame in told}))
        ids = [str(frame["correlation_id"]) for frame in told[:_MOST_SHOWN_IDS]]
        more = ", …" if evidence["frames"] > len(ids) else ""
        frames = counted(evidence["frames"], f"{apis} {evidence['side']}")
        return f"{frames} {evidence['fate']}, correlation ids {', '.join(ids)}{more}"

    def _evidence(self, tally: Mapping[str, Any]) -> dict[str, Any]:
        return {"frames": tally["taken"], "side": self.side, "fate": self.fate, "told": tally["told"]}

    def _senders(self, cluster: ClusterControl) -> tuple[str, ...] | None:
        """The senders for a link's `Rule`: host names, or `clients`; None for any sender."""
        if self.sender is None:
            return None
        if self.sender == "clients":
            return (self.sender,)
        role, _, number = self.sender.partition(":")
        if role == "controller" and not number:
            active, nodes = cluster.controller(), (*cluster.brokers.values(), *cluster.controllers.values())
            return tuple(node.name for node in nodes if node.number == active)
        nodes_by_number = cluster.brokers if role.startswith("broker") else cluster.controllers
        return (nodes_by_number[int(number)].name,) if number else tuple(one.name for one in nodes_by_number.values())


def link_of(node: NodeControl) -> LinkControl:
    """The link of a node; raises `UsageFailure` if it has none."""
    if node.link is None:
        raise UsageFailure(f"connections to {node.name} pass no link: start the cluster with links")
    return node.link


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter(FrameFault):
    """Change one byte in the records of Produce requests, or of Fetch responses to brokers (`api: Fetch`, `side:
    response`, `sender: brokers`). The byte is `byte` bytes before the end of the first batch, of any partition or of
    `lane` and `partition`. The batch's checksum is then wrong. A leader refuses the batch with CORRUPT_MESSAGE, and the
    producer sends it again, except with acks=0; a follower fetches it again. KRaft's metadata log is left alone. Its
    proof: the number of frames that were altered, and their correlation ids."""

    api: Literal["Produce", "Fetch"] = "Produce"
    byte: Annotated[int, Ge(1)] = 1
    kind: ClassVar[str] = "alter"
    fate: ClassVar[str] = "altered"
    leaves_nodes_alone: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#8a3b6f", "#e39ac6", Pattern.DOTS)

    def __post_init__(self) -> None:
        FrameFault.__post_init__(self)
        if (side := "request" if self.api == "Produce" else "response") != self.side:
            raise ValueError(f"side: expected {side}, where {self.api} has records; got {self.side!r}")
        if self.api == "Fetch" and not (self.sender or "").startswith("broker"):
            raise ValueError("sender: expected brokers or broker:ID: consumers may skip records that are altered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(FrameFault):
    """Answer requests with an `error`: the target handles them, but its responses then carry this error in place of
    each result, such as a partition's result. It must be an error after which clients try again, such as
    NOT_LEADER_OR_FOLLOWER or COORDINATOR_LOAD_IN_PROGRESS. Proof: the number of responses that were changed, and
    their correlation ids."""

    api: str = "Produce"
    side: Literal["response"] = "response"
    error: str = "NOT_ENOUGH_REPLICAS"
    kind: ClassVar[str] = "answer"
    fate: ClassVar[str] = "answered with an error"
    appearance: ClassVar[Appearance] = Appearance("#1f6f78", "#7fd0d9", Pattern.CROSSES)

    def __post_init__(self) -> None:
        from kafka_chaos.contract.wire.errors import RETRIABLE_ERRORS

        FrameFault.__post_init__(self)
        if self.error not in RETRIABLE_ERRORS:
            near = ", ".join(get_close_matches(self.error, RETRIABLE_ERRORS)) or "such as NOT_LEADER_OR_FOLLOWER"
            raise ValueError(f"error: expected an error after which clients try again, {near}; got {self.error!r}")

    def _evidence(self, tally: Mapping[str, Any]) -> dict[str, Any]:
        return {**FrameFault._evidence(self, tally), "fate": f"answered with {self.error}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(FrameFault):
    """Break the connection: with `side: request` as soon as the request has gone on to the target, which handles it;
    with `side: response` as soon as the target has answered. The sender of the request gets no response either way. Its
    proof: the number of requests or responses at which connections were cut, and their correlation ids."""

    kind: ClassVar[str] = "cut"
    fate: ClassVar[str] = "cut off"
    appearance: ClassVar[Appearance] = Appearance("#2f6b3a", "#8fd19e", Pattern.CROSSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(FrameFault):
    """Let requests to the targets, or their responses, arrive `seconds` later, but no later than the fault ends.
    Whatever follows such a frame on its connection waits behind it. Proof: the number of frames delayed, and their
    correlation ids."""

    seconds: Annotated[float, Gt(0)] = 1.0
    kind: ClassVar[str] = "delay"
    fate: ClassVar[str] = "delayed"
    appearance: ClassVar[Appearance] = Appearance("#7a5c00", "#d9b84a", Pattern.LINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(FrameFault):
    """Lose requests to the targets, or their responses. Whatever follows such a frame on its connection in the same
    direction is lost, too, as in a network that swallows packets, until the sender gives the connection up. At the
    fault's end, such connections are closed. Proof: the number of frames lost, and their correlation ids."""

    kind: ClassVar[str] = "drop"
    fate: ClassVar[str] = "lost"
    appearance: ClassVar[Appearance] = Appearance("#a8324a", "#f093a5", Pattern.BACK_DIAGONALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(FrameFault):
    """Hold requests to the targets, or their responses, until the fault ends. `then` is what happens to them at the
    end: `release` or `drop`. Whatever follows such a frame on its connection waits behind it. A released frame arrives
    even if its sender has given up. Proof: the number of frames held, and their correlation ids."""

    then: Literal["release", "drop"] = "release"
    kind: ClassVar[str] = "hold"
    fate: ClassVar[str] = "held"
    appearance: ClassVar[Appearance] = Appearance("#6b4fa0", "#b9a3e3", Pattern.DOTS)

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        link_of(node).lift(self.stable_name, release=self.then == "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate(FrameFault):
    """Let at most `kbit_per_second` of the requests to each target, or of its responses, arrive over all connections
    together. The rest waits for its turn, until the fault ends. Proof: the number of frames that were slowed, and
    their correlation ids."""

    kbit_per_second: Annotated[float, Gt(0)] = 1000.0
    kind: ClassVar[str] = "rate"
    fate: ClassVar[str] = "slowed"
    appearance: ClassVar[Appearance] = Appearance("#8c5a1f", "#e0b070", Pattern.DIAGONALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(FrameFault):
    """Let requests to the targets arrive twice, one right behind the other; the second response goes to nobody. Brokers
    write the records of such a Produce request twice unless its producer is idempotent; other requests change nothing
    the second time. Or let Produce or Fetch responses arrive twice at clients (`side: response`, `sender: clients`):
    librdkafka ignores the second one. Proof: the number of frames that arrived twice, and their correlation ids."""

    api: Literal[
        "Produce", "Fetch", "Metadata", "OffsetCommit", "AlterPartition", "BrokerHeartbeat", "LeaderAndIsr"
    ] = "Produce"
    kind: ClassVar[str] = "repeat"
    fate: ClassVar[str] = "passed on twice"
    counts_as: ClassVar[str] = "repeat"
    leaves_nodes_alone: ClassVar[bool] = True
    appearance: ClassVar[Appearance] = Appearance("#3f5fa8", "#9db7ee", Pattern.LINES)

    def __post_init__(self) -> None:
        FrameFault.__post_init__(self)
        if self.side == "response" and (self.api not in ("Produce", "Fetch") or self.sender != "clients"):
            raise ValueError("side: expected request; only Produce and Fetch responses to `sender: clients` may repeat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale(FrameFault):
    """Answer Metadata requests of clients as any broker answered the same request before the fault, so that clients
    look for leaders where they were. Another fault should move a leader meanwhile. Proof: the number of answers
    that were replaced because they named other leaders, and their correlation ids."""

    api: Literal["Metadata"] = "Metadata"
    side: Literal["response"] = "response"
    kind: ClassVar[str] = "stale"
    fate: ClassVar[str] = "answered with former metadata"
    leaves_nodes_alone: ClassVar[bool] = True
    since: ClassVar[tuple[str, str] | None] = ("2.1", "clients detect former metadata by its leader epochs (KIP-320)")
    appearance: ClassVar[Appearance] = Appearance("#6d6a2f", "#cfca7d", Pattern.BACK_DIAGONALS)

    def __post_init__(self) -> None:
        FrameFault.__post_init__(self)
        for key in ("lane", "partition", "transactional_id"):
            if getattr(self, key) is not None:
                raise ValueError(f"{key}: expected client_id instead, since a response has all that a client asks for")


FATES = {kind.kind: kind.fate for kind in (Alter, Answer, Cut, Delay, Drop, Hold, Rate, Repeat, Stale)}
"""What happens to the frames that a fault takes, for each kind by its name."""
