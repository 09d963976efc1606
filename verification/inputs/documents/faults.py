"""A fault as events.jsonl reports it, and what in its events contradicts that it took effect."""

import re
from dataclasses import dataclass, field

from kafka_chaos.contract.lane.fault_kinds import COUNTS_AS, LINK_FAULTS, LOCKSTEP, REPEAT, faults_of_steps
from kafka_chaos.contract.lane.metadata import SERVER
from kafka_chaos.contract.ledger import FaultLedger

MISTIMED = frozenset({"clock-step", "clock-drift"})
"""The kinds that move the clocks by which brokers' logs are timed."""
LEADER_TRANSFER = "leader-transfer"
_SPARES_FOLLOWERS = frozenset({LEADER_TRANSFER, "client-kill", "client-pause", "connection-reset"})
_NO_BROKERS = ("zookeeper-", "controller-")
"""How the names of servers begin that are no brokers."""
_NUMBERED = re.compile(r"(?P<role>broker|zookeeper|controller)s?:(?P<numbers>\d+(?:,\d+)*)")


@dataclass(slots=True)
class FaultRecord:
    """The events of the fault `fault_id`. `lanes` None: it concerned every lane.

    `resolved`: the containers that it hit; empty if the events do not name them. `shown`: what its proofs are about,
    such as containers. `applied`: when it took effect, as these say. `model_faults`: what one's own kind counts as.
    """

    fault_id: str
    kind: str = "?"
    lanes: tuple[str, ...] | None = None
    steps: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()
    requested: list[int] = field(default_factory=list)
    proven: list[int] = field(default_factory=list)
    applied: list[int] = field(default_factory=list)
    healed: list[int] = field(default_factory=list)
    shown: tuple[str, ...] = ()
    denied: str | None = None
    model_faults: tuple[str, ...] = ()
    target: str = ""
    of_client: bool = False
    """Whether it hit the connections of one `client_id` alone."""

    def concerns(self, lane: str) -> bool:
        """Whether this fault concerned `lane`."""
        return self.lanes is None or lane in self.lanes

    @property
    def brokers(self) -> frozenset[str]:
        """The brokers that the fault hit, as far as the events name them."""
        return frozenset(name for name in self.resolved if not name.startswith(_NO_BROKERS))

    @property
    def spares_followers(self) -> bool:
        """Whether the fault makes no follower hang: brokers go on replicating."""
        return self.of_client or self.kind in _SPARES_FOLLOWERS

    @property
    def moves_leaders(self) -> bool:
        """Whether, in the model, its brokers may be replaced or leave an ISR: not where requests arrive twice."""
        return any(kind != REPEAT for kind in self.counts_as)

    def may_end_session(self, broker: str, at_ns: int, session_ns: int) -> bool:
        """Whether a broker's session may have ended at this moment by this fault: it hit the broker, or what several
        brokers need, and was not healed for longer than a session lasts."""
        if not self.requested or at_ns < self.requested[0] or (self.healed and at_ns > self.healed[-1] + session_ns):
            return False
        hits_others = not self.brokers or len(self.brokers) < len(set(self.resolved))
        return (broker in self.brokers and self.kind != REPEAT) or hits_others or "partition" in self.counts_as

    @property
    def counts_as(self) -> tuple[str, ...]:
        """The model's kinds of faults that this one amounts to, one for each broker that it hit."""
        if self.kind == LOCKSTEP:
            return faults_of_steps(self.steps)
        if self.kind not in COUNTS_AS:
            return self.model_faults
        of_model = COUNTS_AS[self.kind]
        return () if of_model is None else (of_model,) * (len(self.brokers) if self.resolved else 1)

    @property
    def problem(self) -> str | None:
        """Why this does not prove a fault that was requested, proven and healed, in that order."""
        if len(self.requested) != 1:
            return f"requested {len(self.requested)} times under one id" if self.requested else "never requested"
        if self.denied is not None:
            return f"{'reported as proven and as not proven' if self.proven else 'not proven'}: {self.denied}"
        if not self.proven:
            return "not proven: no event says so"
        if self.proven[0] < self.requested[0]:
            return "proven before it was requested"
        if any(not self.requested[0] <= applied_ns <= self.proven[0] for applied_ns in self.applied):
            return "applied before it was requested, or after it was proven"
        of_servers = {name for name in self.resolved if SERVER.fullmatch(name)}
        # A target of a role names no servers: anybody may hold it.
        named = _NUMBERED.fullmatch(self.target)
        asked = named and {f"{named['role']}-{number}" for number in named["numbers"].split(",")}
        if asked and of_servers and of_servers != asked:
            return f"requested of {self.target}, but it hit {', '.join(self.resolved)}"
        servers = {name for name in self.shown if SERVER.fullmatch(name)}
        unproven = [name for name in self.resolved if SERVER.fullmatch(name) and name not in servers]
        if servers and (unproven if self.kind not in LINK_FAULTS else servers.isdisjoint(self.resolved)):
            return f"proven of {', '.join(sorted(servers))}, requested of {', '.join(self.resolved)}"
        if self.kind == LOCKSTEP:
            return None
        if not self.healed:
            return "not healed: no event says so"
        if len(self.healed) > 1:
            return f"healed {len(self.healed)} times under one id"
        return "healed before it was proven" if self.healed[0] < self.proven[0] else None

    def ledger(self) -> FaultLedger:
        """The fault's entry of the ledger."""
        return FaultLedger(
            fault_id=self.fault_id,
            kind=self.kind,
            requested_ns=next(iter(self.requested), None),
            proven_ns=next(iter(self.proven), None),
            healed_ns=next(iter(self.healed), None),
            problem=self.problem,
        )
