"""The replication core's state, packed: five small integers per state at three brokers.

It covers what the public TLA+ specification of Kafka replication by hachikuji covers: one partition, a log, a
high watermark, a leader epoch, a leader and an ISR per replica, the partition's state in ZooKeeper, and every
LeaderAndIsr request ever sent, which a replica may receive late, again or never.

A replica's whole local state is interned to one integer, and so is the controller's; what an action does to a
pair of locals is worked out once and remembered. A state is the tuple of the replicas' numbers, the
controller's, and that of what the scope still allows (records, faults).
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_chaos.reference_model.interning import Numbers

NO_LEADER = -1
NO_EPOCH = -1


class Local(NamedTuple):
    """One replica: entries hold record ids (`protocol/entries.py`); `isr` is a bit set of brokers."""

    log: tuple[int, ...]
    high_watermark: int
    leader_epoch: int
    leader: int
    isr: int


class Controller(NamedTuple):
    """`requests[epoch]` is the (leader, isr) of the LeaderAndIsr of that epoch; the last one is also what
    ZooKeeper holds, but for the ISR, which leaders change in place: `isr`."""

    requests: tuple[tuple[int, int], ...]
    isr: int

    @property
    def leader(self) -> int:
        """The leader in ZooKeeper, or `NO_LEADER`."""
        return self.requests[-1][0] if self.requests else NO_LEADER

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in ZooKeeper, or `NO_EPOCH`."""
        return len(self.requests) - 1


class Budget(NamedTuple):
    """The rest of the scope: the next record's id, and the faults that may still strike."""

    next_record: int
    faults: tuple[str, ...]


CoreState = tuple[int, ...]
"""The replicas' locals, the controller, the budget: each a number in the tables of `Tables`."""


class Tables:
    """Interned values, by number and back."""

    def __init__(self) -> None:
        self._locals = Numbers[Local]()
        self._controllers = Numbers[Controller]()
        self._budgets = Numbers[Budget]()
        self.locals = self._locals.values
        self.controllers = self._controllers.values
        self.budgets = self._budgets.values
        self.local = self._locals.of
        self.controller = self._controllers.of
        self.budget = self._budgets.of
