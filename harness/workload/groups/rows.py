"""The rows of members of loops and of share groups, made of the events that the members' processes tell.

The death of a loop's member leaves its records without an outcome (`info`), and its transaction open: in doubt if its
commit may have been asked for, else aborted.

A delivery to a member of a share group has its row once its acknowledgement has an answer. A member's death leaves its
last deliveries without an acknowledgement, and its last acknowledgements without an answer (`info`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka_chaos.harness.workload.client_process import EventHandler, ProtocolBreach
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.producer import TransactionRows


class LoopRows(ConsumedRows):
    """The rows of one member of a loop, with those of the records that it writes to `output`.

    With a `transactional_id`, it writes in transactions, which are noted as calls where they take long.
    """

    def __init__(
        self, load: LoadSettings, *, output: ProducedRows, transactional_id: str | None = None, **consumed: Any
    ) -> None:
        super().__init__(load, **consumed)
        self._calls_lane = output.lane
        self._output = output
        self._transactional_id = str(transactional_id)
        self._transactions = TransactionRows(
            output, transactional_id=self._transactional_id, rows=partial(load.tables.add, "transactions")
        )
        self.handlers |= {
            "commit": self._asks,
            "sent": self._sent,
            "outcome": output.handle_outcome,
            "transaction": self._ended,
        }

    def ends(self) -> None:
        """The member has ended: write what is left of its reads and of its output."""
        super().ends()
        self._output.write_rest()
        if self._transactions.is_open:
            self._transactions.leave_open()
            self._calls.ends(self._call)

    def _asks(self, **values: Any) -> None:
        # The commit of the transaction is asked for only after its offsets were sent.
        self._transactions.asks_for_commit()
        self._handle_commit(**values)

    def _sent(
        self, first_seq: int, partition: list[int], sources: list[list[int]], transaction: int | None, ns: int
    ) -> None:
        output = self._output
        if output.sent != first_seq:
            raise ProtocolBreach(f"record {first_seq} was not the next one to send")
        if transaction is not None and not self._transactions.is_open:
            self._transactions.begins(ns, transaction)
            self._call = self._calls.begins(output.lane, self._transactional_id, "transaction")
        output.hand_out(len(sources), ns=ns, partition=partition, sources=sources)

    def _ended(self, row: dict[str, Any]) -> None:
        if self._transactions.is_open:
            self._calls.ends(self._call)
        self._transactions.add_row(row)


EVERYTHING = 2**62
"""An offset past every record."""


@dataclass(eq=False, kw_only=True)
class SharerRows(EventHandler):
    """The rows of one `member` of a share group, which reads `lane`. `on_change` learns when it freezes and thaws."""

    group: str
    lane: str
    member: str
    tables: LoadTables
    readers: Readers
    on_change: Callable[[str], None]

    role = "a member of a share group"

    def __post_init__(self) -> None:
        self._of = {"lane": self.lane, "group": self.group, "member": self.member}
        self._held: dict[int, dict[str, Any]] = {}
        self.handlers = {
            "delivered": self._delivered,
            "acknowledges": self._acknowledges,
            "acknowledged": self._acknowledged,
            "starts": self._starts,
            "changes": lambda change: self.on_change(change),  # noqa: PLW0108 - as in `ConsumedRows`
        }

    def ends(self) -> None:
        """The member has ended: deliveries that have no row yet get one."""
        for row in self._held.values():
            self.tables.add("deliveries", {**row, "outcome": "info"} if "acknowledgement" in row else row)
        self._held = {}

    def _delivered(self, number: int, asked_ns: int, ns: int, **columns: list[int]) -> None:
        names = ("partition", "offset", "producer_id", "seq", "delivery_count")
        rows = zip(*(columns[name] for name in names), strict=True)
        for at, values in enumerate(rows, start=number):
            named = dict(zip(names, values, strict=True))
            self._held[at] = {**self._of, **named, "asked_ns": asked_ns, "delivered_ns": ns}
        self.readers.count_read(len(columns["offset"]))

    def _acknowledges(self, number: int, ns: int, acknowledgements: list[str]) -> None:
        for at, acknowledgement in enumerate(acknowledgements, start=number):
            if at not in self._held:
                raise ProtocolBreach(f"delivery {at} is acknowledged, and was not told")
            self._held[at] |= {"acknowledgement": acknowledgement, "invoke_ns": ns}

    def _acknowledged(self, numbers: list[int], ns: int, outcome: str, error: str | None) -> None:
        for number in numbers:
            row = self._held.pop(number, None)
            if row is None or "acknowledgement" not in row:
                raise ProtocolBreach(f"delivery {number} has an answer, and was not acknowledged")
            self.tables.add("deliveries", {**row, "complete_ns": ns, "outcome": outcome, "error": error})

    def _starts(
        self, invoke_ns: int, complete_ns: int, partition: list[int], offset: list[int], lag: list[int | None]
    ) -> None:
        of = {**self._of, "invoke_ns": invoke_ns, "complete_ns": complete_ns}
        for number, start, behind in zip(partition, offset, lag, strict=True):
            self.tables.add("share_starts", {**of, "partition": number, "offset": start, "lag": behind})
        # The start offset is the group's, whichever member tells it. It trails behind the last acknowledgements:
        # without a lag, no record is due, whatever the offset.
        ends = [EVERYTHING if behind == 0 else start for start, behind in zip(offset, lag, strict=True)]
        self.readers.note_positions(self.readers, [list(at) for at in zip(partition, ends, strict=True)])
