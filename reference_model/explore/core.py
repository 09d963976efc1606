"""The actions of replication without producers (the core): one action, one function of the state.

As in the public TLA+ specification by hachikuji, a broker's failure is not a state. The controller may take any broker
out of the ISR or the leadership from it at any moment, and a broker that has stopped takes no further step. Pauses,
partitions, expired sessions and controlled shutdowns are therefore in every exploration. Restarts, which forget what
was in memory, and losses of power are in it only if the scope names them (`CoreScope.faults`).

Left out: the version check on ISR changes (KIP-497; here an ISR changes at once, and only by the leader of record, the
one in ZooKeeper, in its own epoch), the delay until a leader knows what its followers have, producers and their
acknowledgements (`lane/exchanges.py` has them), more than one partition.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from kafka_chaos.reference_model.explore.state import (
    NO_EPOCH,
    NO_LEADER,
    Controller,
    CoreState,
    Local,
    Relation,
    Remainder,
    examine,
)
from kafka_chaos.reference_model.protocol import Protocol
from kafka_chaos.reference_model.protocol.eligible import Standing, electable
from kafka_chaos.reference_model.protocol.entries import entry_of
from kafka_chaos.reference_model.protocol.isr import may_leave_isr
from kafka_chaos.reference_model.protocol.leaders import serves
from kafka_chaos.reference_model.tuples import each_taken, with_item

Value = TypeVar("Value", bound=Hashable)


class Numbers(Generic[Value]):
    """Gives numbers to values, from 0 on in the order of their first appearance; equal values have one number."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def number(self, value: Value) -> int:
        """The number of a value, which `values[number]` returns."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreScope:
    """The bounds of an exploration: a log holds at most `records`, and the controller decides at most
    `leader_epochs` times; each entry of `faults` ("kill", "power-loss") strikes at most once."""

    brokers: int = 3
    records: int = 2
    leader_epochs: int = 3
    faults: tuple[str, ...] = ()
    unclean_leader_election: bool = False


class CoreAction(NamedTuple):
    """A step: its name, and the broker that takes it. `other`: the other broker or the record that the step concerns.
    `detail`: the epoch or the offset that the step's text names, if any."""

    name: str
    broker: int = -1
    other: int = -1
    detail: int = -1


CoreStep = tuple[CoreAction, CoreState]


class Core:
    """The core under one protocol, in one scope. A state is a tuple of numbers that stand for values (`CoreState`).

    The values, by number: `locals` (of replicas), `controllers`, `remainders` (of the scope). `brokers`: all indices.
    """

    def __init__(self, protocol: Protocol, scope: CoreScope) -> None:
        self.protocol = protocol
        self.scope = scope
        self._locals, self._controllers = Numbers[Local](), Numbers[Controller]()
        self._remainders = Numbers[Remainder]()
        self.locals, self.controllers = self._locals.values, self._controllers.values
        self.remainders = self._remainders.values
        self.brokers = range(scope.brokers)
        self._relations: dict[tuple[int, int, int], Relation] = {}

    def initial(self) -> CoreState:
        """The state in which nobody leads, every broker is in the ISR, and all logs are empty."""
        everyone = (1 << self.scope.brokers) - 1
        blank = self._locals.number(Local((), 0, NO_EPOCH, NO_LEADER, 0))
        controller = self._controllers.number(Controller((), everyone))
        remainder = self._remainders.number(Remainder(0, tuple(sorted(self.scope.faults))))
        return (*(blank for _ in self.brokers), controller, remainder)

    def relation(self, broker: int, leader: int, follower: int) -> Relation:
        """How `broker` and another replica relate in the local states of these numbers. The results are cached."""
        key = (broker, leader, follower)
        relation = self._relations.get(key)
        if relation is None:
            relation = self._relations[key] = examine(self.protocol, broker, self.locals[leader], self.locals[follower])
        return relation

    def steps(self, state: CoreState) -> Iterator[CoreStep]:
        """Yield every possible (action, next state)."""
        yield from self.controller_elect_leader(state)
        yield from self.controller_shrink_isr(state)
        yield from self.become_leader(state)
        yield from self.become_follower(state)
        for broker in self.brokers:
            if self.locals[state[broker]].leader == broker:
                yield from self.leader_write(state, broker)
                yield from self.leader_advance_high_watermark(state, broker)
                yield from self.follower_fetch(state, broker)
                yield from self.leader_change_isr(state, broker)
        if self.remainders[state[-1]].faults:
            yield from self.restart(state)

    def controller_elect_leader(self, state: CoreState) -> Iterator[CoreStep]:
        """The controller elects another broker. Any may be the only live one: a state does not say who failed."""
        controller = self.controllers[state[-2]]
        if len(controller.requests) == self.scope.leader_epochs:
            return
        for broker in self.brokers:
            if controller.leader == broker:
                continue
            live = frozenset([broker])
            live_isr = live if controller.isr >> broker & 1 else frozenset[int]()
            elected, standing = electable(live, live_isr, unclean=self.scope.unclean_leader_election)
            if elected:
                clean = standing is Standing.IN_SYNC
                action = CoreAction("elect" if clean else "elect_unclean", broker, detail=len(controller.requests))
                yield action, self._with_decision(state, controller, broker, controller.isr if clean else 1 << broker)

    def controller_shrink_isr(self, state: CoreState) -> Iterator[CoreStep]:
        """The controller takes a broker for dead and out of the ISR. The last member stays in it, but does not lead."""
        controller = self.controllers[state[-2]]
        if len(controller.requests) == self.scope.leader_epochs:
            return
        for broker in self.brokers:
            bit = 1 << broker
            leaves = may_leave_isr(controller.isr.bit_count())
            if not controller.isr & bit or not (leaves or controller.leader == broker):
                continue
            leader = NO_LEADER if controller.leader == broker else controller.leader
            isr = controller.isr & ~bit if leaves else controller.isr
            action = CoreAction("controller_shrink_isr", broker, detail=len(controller.requests))
            yield action, self._with_decision(state, controller, leader, isr)

    def _with_decision(self, state: CoreState, controller: Controller, leader: int, isr: int) -> CoreState:
        """The state after the controller has written and sent this leader and ISR, in a new leader epoch."""
        requests = (*controller.requests, (leader, isr))
        return (*state[:-2], self._controllers.number(Controller(requests, isr)), state[-1])

    def become_leader(self, state: CoreState) -> Iterator[CoreStep]:
        """A broker receives a LeaderAndIsr of a newer epoch that makes it the leader; its high watermark stays."""
        for broker, local, epoch, leader, isr in self._newer_requests(state):
            if leader == broker:
                led = local._replace(leader_epoch=epoch, leader=broker, isr=isr)
                yield CoreAction("become_leader", broker, detail=epoch), self._with_local(state, broker, led)

    def become_follower(self, state: CoreState) -> Iterator[CoreStep]:
        """A broker receives a LeaderAndIsr of a newer epoch in which it does not lead; it truncates if another does."""
        for broker, local, epoch, leader, isr in self._newer_requests(state):
            if leader == broker:
                continue
            end = len(local.log)
            if leader != NO_LEADER:
                other = self.locals[state[leader]]
                if not self._may_truncate(other, leader, epoch):
                    continue
                end = self.protocol.truncation(local.log, local.high_watermark, other.log)
            follower = Local(local.log[:end], min(end, local.high_watermark), epoch, leader, isr)
            yield CoreAction("become_follower", broker, leader, epoch), self._with_local(state, broker, follower)

    def _newer_requests(self, state: CoreState) -> Iterator[tuple[int, Local, int, int, int]]:
        """Each LeaderAndIsr that is news to a broker: (broker, its local state, epoch, leader, isr)."""
        requests = self.controllers[state[-2]].requests
        for broker in self.brokers:
            local = self.locals[state[broker]]
            for epoch in range(local.leader_epoch + 1, len(requests)):
                yield broker, local, epoch, *requests[epoch]

    def _may_truncate(self, leader_local: Local, leader: int, epoch: int) -> bool:
        """Whether a new follower knows where to truncate: the leader answers it, or the follower need not ask."""
        if not self.protocol.asks_leader:
            return True
        takes_itself_for_leader = leader_local.leader == leader
        return takes_itself_for_leader and serves(leader_local.leader_epoch, epoch, checks_epoch=self.protocol.fenced)

    def leader_write(self, state: CoreState, broker: int) -> Iterator[CoreStep]:
        """A broker that takes itself for the leader appends a record in its own epoch."""
        local = self.locals[state[broker]]
        remainder = self.remainders[state[-1]]
        if remainder.next_record < self.scope.records:
            record = remainder.next_record
            log = (*local.log, entry_of(record, local.leader_epoch))
            after = self._with_local(state, broker, local._replace(log=log))
            rest = self._remainders.number(remainder._replace(next_record=record + 1))
            yield CoreAction("write", broker, record, len(local.log)), (*after[:-1], rest)

    def leader_advance_high_watermark(self, state: CoreState, broker: int) -> Iterator[CoreStep]:
        """The leader commits its next record: every other member of its own ISR follows it and holds the record."""
        local = self.locals[state[broker]]
        if len(local.log) == local.high_watermark:
            return
        for other in self.brokers:
            is_other_member = other != broker and local.isr >> other & 1
            if is_other_member and not self.relation(broker, state[broker], state[other]).holds_next:
                return
        advanced = local._replace(high_watermark=local.high_watermark + 1)
        action = CoreAction("advance_high_watermark", broker, detail=advanced.high_watermark)
        yield action, self._with_local(state, broker, advanced)

    def follower_fetch(self, state: CoreState, broker: int) -> Iterator[CoreStep]:
        """A replica that follows `broker` takes the next record and the high watermark from it."""
        for other in self.brokers:
            if other != broker and (fetched := self.relation(broker, state[broker], state[other]).fetched) is not None:
                yield CoreAction("fetch", other, broker, len(fetched.log) - 1), self._with_local(state, other, fetched)

    def leader_change_isr(self, state: CoreState, broker: int) -> Iterator[CoreStep]:
        """The leader of record, in its own epoch, drops a follower that lags or admits another that caught up."""
        local = self.locals[state[broker]]
        controller = self.controllers[state[-2]]
        if controller.leader != broker or controller.leader_epoch != local.leader_epoch:
            return
        for other in self.brokers:
            if other == broker:
                continue
            bit = 1 << other
            relation = self.relation(broker, state[broker], state[other])
            if local.isr & bit and relation.lags:
                yield CoreAction("shrink_isr", broker, other), self._with_isr(state, broker, local.isr & ~bit)
            elif not local.isr & bit and relation.may_join_isr:
                yield CoreAction("expand_isr", broker, other), self._with_isr(state, broker, local.isr | bit)

    def restart(self, state: CoreState) -> Iterator[CoreStep]:
        """A broker that the controller takes for dead starts again.

        Its log is whole after a "kill", and any prefix of it after a "power-loss". Its high watermark is any that it
        may have checkpointed. It takes no request from before its registration (KIP-380).
        """
        controller = self.controllers[state[-2]]
        remainder = self.remainders[state[-1]]
        for fault, faults_left in each_taken(remainder.faults):
            rest = self._remainders.number(remainder._replace(faults=faults_left))
            for broker in self.brokers:
                bit = 1 << broker
                # A broker that was taken for dead does not lead, and is not in the ISR, or is its last member.
                if controller.leader == broker or (controller.isr & bit and controller.isr != bit):
                    continue
                local = self.locals[state[broker]]
                shortest = 0 if fault == "power-loss" else len(local.log)
                for end in range(shortest, len(local.log) + 1):
                    for watermark in range(min(end, local.high_watermark) + 1):
                        # As if it had seen all requests but the last: it ignores those from before its registration.
                        latest_ignored_epoch = max(local.leader_epoch, controller.leader_epoch - 1)
                        started = Local(local.log[:end], watermark, latest_ignored_epoch, NO_LEADER, 0)
                        after = self._with_local(state, broker, started)
                        yield CoreAction(fault, broker), (*after[:-1], rest)

    def _with_local(self, state: CoreState, broker: int, local: Local) -> CoreState:
        return with_item(state, broker, self._locals.number(local))

    def _with_isr(self, state: CoreState, broker: int, isr: int) -> CoreState:
        local = self.locals[state[broker]]._replace(isr=isr)
        controller = self.controllers[state[-2]]._replace(isr=isr)
        after = self._with_local(state, broker, local)
        return (*after[:-2], self._controllers.number(controller), after[-1])
