"""What the member of a loop says of its output, as rows of the history, beside those of what it reads.

A member's death leaves its records without an outcome (`info`), and its transaction open: in doubt if its commit may
have been asked for, else aborted.
"""

from typing import Any

from kafka_chaos.contract.lane.transactions import ABORTED, IN_DOUBT
from kafka_chaos.harness.workload.client_process import ProtocolBreach
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.tables import LoadTables


class LoopRows(ConsumedRows):
    """The rows of one member of a loop. `output`: the records that it writes; with a `transactional_id`, in
    transactions, which are noted as calls where they take long."""

    def __init__(
        self, tables: LoadTables, *, output: ProducedRows, transactional_id: str | None = None, **consumed: Any
    ) -> None:
        super().__init__(tables, **consumed)
        self._lane_of_calls = output.lane
        self._output = output
        self._transactional_id = transactional_id
        self._begun: dict[str, Any] | None = None
        self._takers |= {"commit": self._asks, "sent": self._sent, "outcome": output.said, "transaction": self._ended}

    def ends(self) -> None:
        """The same, and of the output."""
        super().ends()
        self._output.write_rest()
        if self._begun is not None:
            self._ended(self._begun)

    def _asks(self, **values: Any) -> None:
        if self._begun is not None:
            # Nobody asks for the transaction's commit before its offsets are sent.
            self._begun["outcome"] = IN_DOUBT
        self._commit(**values)

    def _sent(
        self, first_seq: int, partition: list[int], sources: list[list[int]], transaction: int | None, ns: int
    ) -> None:
        output = self._output
        if output.sent != first_seq:
            raise ProtocolBreach(f"record {first_seq} was not the next one to send")
        if transaction is not None and self._begun is None:
            self._begun = {"lane": output.lane, "producer_id": output.producer_id, "transaction": transaction}
            self._begun |= {"transactional_id": self._transactional_id, "begin_ns": ns, "outcome": ABORTED}
            self._begins_call("transaction", str(self._transactional_id), "transaction")
            output.in_transaction(transaction)
        output.hand_out(len(sources), ns=ns, partition=partition, sources=sources)

    def _ended(self, row: dict[str, Any]) -> None:
        assert self._tables.transactions is not None
        self._tables.transactions.add(row)
        self._begun = None
        if "transaction" in self._called:
            self._answered("transaction")
