"""Makes the history's rows for two kinds of members: members of loops and members of share groups.

If a loop's member dies, its records without an outcome become `info`, and its open transaction counts as in doubt if
the commit may have been asked for, else as aborted.

A delivery to a member of a share group gets its row once its acknowledgement has an answer. If the member dies, its
last deliveries have no acknowledgement, and its last acknowledgements no answer (`info`).
"""

from typing import Any

from kafka_chaos.harness.workload.client_process import EventHandler, ProtocolBreach
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.groups.load import GroupLoad
from kafka_chaos.harness.workload.transactions.producer import TransactionRows


class LoopRows(ConsumedRows):
    """The rows of one member of a loop: what it reads, and in `output` the records that it writes.

    Transactions are timed as calls: a long one holds up `output`'s lane.
    """

    def __init__(self, readers: Readers, *, output: ProducedRows, **options: Any) -> None:
        """`options`: further parameters of `ConsumedRows`."""
        super().__init__(readers, **options)
        self._lane_of_calls = output.lane
        self._output = output
        self._transactions = TransactionRows(output)
        self._handle_outcome = output.handle_outcome

    def note_end(self) -> None:
        """Learn that the member has ended: write what is left of its reads and of its output."""
        super().note_end()
        self._output.write_rest()
        if self._transactions.is_open:
            self._transactions.end_unconfirmed()
            self._calls.note_end(self._call)

    def _handle_commit(self, *_: Any, **values: Any) -> None:
        # The member asks for the transaction's commit once it has sent these offsets, without another event.
        self._transactions.note_commit_request(values["ns"])
        super()._handle_commit(**values)

    def _handle_sent(
        self, first_seq: int, partition: list[int], sources: list[list[int]], transaction: int | None, ns: int
    ) -> None:
        output = self._output
        if output.sent != first_seq:
            raise ProtocolBreach(f"record {first_seq} was not the next one to send")
        if transaction is not None and not self._transactions.is_open:
            self._transactions.note_begin(ns, transaction)
            self._call = self._calls.note_begin(output.lane, str(output.transactional_id), "transaction")
        extras = [
            {"partition": number, "source_producer_id": producer_id, "source_seq": seq}
            for number, (producer_id, seq) in zip(partition, sources, strict=True)
        ]
        output.hand_out(len(sources), ns=ns, extras=extras)

    def _handle_transaction(self, row: dict[str, Any]) -> None:
        if self._transactions.is_open:
            self._calls.note_end(self._call)
        self._transactions.add_row(row)


PAST_EVERY_RECORD = 2**62  # an offset


class ShareMemberRows(EventHandler):
    """Makes the rows of one `member` of a share group, which learns how far the member is, and when it freezes."""

    role = "a member of a share group"

    def __init__(self, group: GroupLoad, member: str) -> None:
        self._group, self._tables = group, group.load.tables
        self._member_columns = {"lane": group.lane.lane, "group": group.group_id, "member": member}
        # The rows that are not written yet, by the number that the member gave the delivery.
        self._deliveries: dict[int, dict[str, Any]] = {}

    def note_end(self) -> None:
        """Learn that the member has ended: deliveries that have no row yet get one."""
        for row in self._deliveries.values():
            self._tables.add("deliveries", {**row, "outcome": "info"} if "acknowledgement" in row else row)
        self._deliveries = {}

    def _handle_changes(self, change: str) -> None:
        self._group.note_change(self._member_columns["member"], change)

    def _handle_delivered(self, number: int, asked_ns: int, ns: int, **columns: list[int]) -> None:
        """Keep a batch of deliveries, which are numbered from `number` on."""
        names = ("partition", "offset", "producer_id", "seq", "delivery_count")
        rows = zip(*(columns[name] for name in names), strict=True)
        for delivery, values in enumerate(rows, start=number):
            row = {**self._member_columns, **dict(zip(names, values, strict=True))}
            self._deliveries[delivery] = {**row, "asked_ns": asked_ns, "delivered_ns": ns}
        self._group.count_read(len(columns["offset"]))

    def _handle_acknowledges(self, number: int, ns: int, acknowledgements: list[str]) -> None:
        """Handle the event `acknowledges`: the member is about to send these, for the deliveries from `number` on."""
        for delivery, acknowledgement in enumerate(acknowledgements, start=number):
            if delivery not in self._deliveries:
                raise ProtocolBreach(f"delivery {delivery} is acknowledged, but was never reported")
            self._deliveries[delivery] |= {"acknowledgement": acknowledgement, "invoke_ns": ns}

    def _handle_acknowledged(self, numbers: list[int], ns: int, outcome: str, error: str | None) -> None:
        """Handle the event `acknowledged`: the answer to the acknowledgements of these deliveries."""
        for number in numbers:
            row = self._deliveries.pop(number, None)
            if row is None or "acknowledgement" not in row:
                raise ProtocolBreach(f"delivery {number} has an answer, but was never acknowledged")
            self._tables.add("deliveries", {**row, "complete_ns": ns, "outcome": outcome, "error": error})

    def _handle_starts(
        self, invoke_ns: int, complete_ns: int, partition: list[int], offset: list[int], lag: list[int | None]
    ) -> None:
        """Handle the event `starts`: write the group's start offsets and lags by partition, and note the positions."""
        columns = {**self._member_columns, "invoke_ns": invoke_ns, "complete_ns": complete_ns}
        positions = []
        for number, start, records_behind in zip(partition, offset, lag, strict=True):
            self._tables.add("share_starts", {**columns, "partition": number, "offset": start, "lag": records_behind})
            # The start offset trails behind the last acknowledgements. At lag 0, the group has processed everything.
            positions.append((number, PAST_EVERY_RECORD if records_behind == 0 else start))
        # The owner of the positions is the whole group, whichever member reports them.
        self._group.note_positions(self._group, positions)
