"""The reports of a group's members, as rows of the history.

A member's death leaves its assignments without an end, its last commit without an answer (`info`), its records without
an outcome (`info`), and its transaction open: in doubt if its commit may have been asked for, else aborted.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.lane.transactions import ABORTED, IN_DOUBT
from kafka_chaos.harness.workload.clients.calls import Calls
from kafka_chaos.harness.workload.clients.following import behind
from kafka_chaos.harness.workload.clients.produced import ProducedRows, ProtocolBreach
from kafka_chaos.harness.workload.history.writer import consumed_rows
from kafka_chaos.harness.workload.processes.producer import take_outcome
from kafka_chaos.harness.workload.tables import LoadTables


class Progress:
    """The progress of a group: records read, and where its members stand at the end."""

    def __init__(self) -> None:
        self.consumed = 0
        self._at_end: dict[int, tuple[object, int]] = {}
        self._lock = threading.Lock()

    def behind(self, ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The partitions whose present owner has not come to the end: (offset, end) by number."""
        with self._lock:
            at = {number: offset for number, (_, offset) in self._at_end.items()}
        return behind(at, ends)

    def has_joined(self) -> None:
        """A member was given partitions."""

    def reaches(self, member: object, offsets: list[list[int]]) -> None:
        """A member has processed its partitions up to these ends."""
        with self._lock:
            self._at_end.update({partition: (member, offset) for partition, offset in offsets})

    def loses(self, member: object, partitions: list[int] | None = None) -> None:
        """A member has lost partitions, or all that it had."""
        with self._lock:
            for partition, (owner, _) in list(self._at_end.items()):
                if owner is member and (partitions is None or partition in partitions):
                    del self._at_end[partition]


@dataclass(eq=False, kw_only=True)
class MemberRows:
    """The rows of one member of `group`, which reads `lane`.

    `output`: in a loop, the records that it writes; with a `transactional_id`, in transactions. Assignments and commits
    are recorded where the lane `has_groups`, and `tables` have them. `on_change` learns when it freezes and thaws.
    `calls` notes its commits, and the transactions of a loop, where they take long.
    """

    group: str
    lane: str
    isolation: str
    tables: LoadTables
    progress: Progress
    has_groups: bool = True
    output: ProducedRows | None = None
    transactional_id: str | None = None
    on_change: Callable[[str], None] = lambda change: None
    calls: Calls = field(default_factory=Calls)

    def __post_init__(self) -> None:
        self._of = {"lane": self.lane, "group": self.group}
        tables = self.tables
        self._assignments, self._commits = (tables.assignments, tables.commits) if self.has_groups else (None, None)
        self._holds: dict[tuple[str, int], dict[str, Any]] = {}
        self._asked: dict[int, list[dict[str, Any]]] = {}
        self._called: dict[object, int] = {}
        self._begun: dict[str, Any] | None = None
        self._takers: Mapping[str, Callable[..., None]] = {
            "assigned": self._given,
            "given_back": self._taken,
            "at_end": self._at_end,
            "read": self._read,
            "commit": self._commit,
            "committed": self._committed,
            "sent": self._sent,
            "outcome": self._outcome,
            "transaction": self._ended,
            "changes": self._changes,
        }

    def takes(self, kind: str, values: dict[str, Any]) -> None:
        """Take what the member tells: a kind of `Tell`, and its values."""
        self._takers[kind](**values)

    def ends(self) -> None:
        """The member has ended: what has no row by now gets one."""
        self.progress.loses(self)
        for assigned in self._holds.values():
            self._add_assigned(assigned)
        for commit in self._asked.values():
            self._add_commit(commit, {}, None, "info")
        if self.output is not None:
            self.output.write_rest()
        if self._begun is not None:
            self._ended(self._begun)
        for call in list(self._called):
            self._answered(call)

    def _calls(self, key: object, client: str, call: str) -> None:
        lane = self.lane if self.output is None else self.output.lane
        self._called[key] = self.calls.begins(lane, client, call)

    def _answered(self, key: object) -> None:
        self.calls.ends(self._called.pop(key))

    def _changes(self, change: str) -> None:
        self.on_change(change)

    def _given(self, consumer: str, member: str, generation: int | None, partitions: list[int], ns: int) -> None:
        self.progress.loses(self)
        named = {**self._of, "consumer": consumer, "member": member, "generation": generation}
        for partition in partitions:
            row = {**named, "partition": partition, "isolation": self.isolation, "start_ns": ns}
            self._holds[consumer, partition] = row
        self.progress.has_joined()
        if self._assignments is not None:
            self.tables.reservations.assigned([self._holds[consumer, partition] for partition in partitions])

    def _taken(self, consumer: str, partitions: list[int], ns: int) -> None:
        self.progress.loses(self, partitions)
        for partition in partitions:
            self._add_assigned({**self._holds.pop((consumer, partition)), "end_ns": ns})

    def _add_assigned(self, row: dict[str, Any]) -> None:
        if self._assignments is not None:
            self._assignments.add(row)

    def _at_end(self, offsets: list[list[int]]) -> None:
        self.progress.reaches(self, offsets)

    def _read(self, consumer: str, ns: int, leader_epoch: list[int | None], **columns: list[int]) -> None:
        rows = consumed_rows(self.lane, consumer, ns, leader_epoch=leader_epoch, **columns)
        self.tables.consumed.write(rows)
        self.progress.consumed += rows.num_rows

    def _commit(
        self,
        number: int,
        consumer: str,
        offsets: list[list[int]],
        producer_id: int | None,
        transaction: int | None,
        ns: int,
    ) -> None:
        if self._begun is not None:
            self._begun["outcome"] = IN_DOUBT
        asked = {**self._of, "consumer": consumer, "invoke_ns": ns}
        asked |= {"producer_id": producer_id, "transaction": transaction}
        self._calls(number, consumer, "commit" if transaction is None else "send_offsets_to_transaction")
        self._asked[number] = [{**asked, "partition": partition, "offset": offset} for partition, offset in offsets]

    def _committed(self, number: int, errors: list[tuple[int, str, str]], ns: int) -> None:
        failed = {partition: (outcome, error) for partition, outcome, error in errors}
        self._answered(number)
        self._add_commit(self._asked.pop(number), failed, ns, "ok")

    def _add_commit(
        self, rows: list[dict[str, Any]], failed: Mapping[int, tuple[str, str]], ns: int | None, otherwise: str
    ) -> None:
        if self._commits is None:
            return
        for row in rows:
            outcome, error = failed.get(row["partition"], (otherwise, None))
            self._commits.add({**row, "complete_ns": ns, "outcome": outcome, "error": error})

    def _sent(
        self, first_seq: int, partition: list[int], sources: list[list[int]], transaction: int | None, ns: int
    ) -> None:
        output = self.output
        if output is None or output.sent != first_seq:
            raise ProtocolBreach(f"record {first_seq} was not the next one to send")
        if transaction is not None and self._begun is None:
            # Nobody asks for its commit before its offsets are sent.
            self._begun = {"lane": output.lane, "producer_id": output.producer_id, "transaction": transaction}
            self._begun |= {"transactional_id": self.transactional_id, "begin_ns": ns, "outcome": ABORTED}
            self._calls("transaction", str(self.transactional_id), "transaction")
            output.in_transaction(transaction)
        output.hand_out(len(sources), ns=ns, partition=partition, sources=sources)

    def _outcome(self, **values: Any) -> None:
        assert self.output is not None
        take_outcome(self.output, **values)

    def _ended(self, row: dict[str, Any]) -> None:
        assert self.tables.transactions is not None
        self.tables.transactions.add(row)
        self._begun = None
        if "transaction" in self._called:
            self._answered("transaction")
