"""The transactions of an application's client, as far as its lane has any: what it asks for, and what it learns."""

import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.history.writer import RowBuffer
from kafka_chaos.harness.workload.transactions.producer import TransactionRows


class ClientTransactions:
    """Records one client's transactions; nothing of a client without a transactional id, or in a lane without them."""

    def __init__(self, table: RowBuffer | None, records: ProducedRows, transactional_id: str | None) -> None:
        self.number = -1
        """That of the last transaction that began."""
        self._records = records
        self._rows: TransactionRows | None = None
        if table is not None and transactional_id is not None:
            self._rows = TransactionRows(records, transactional_id=transactional_id, rows=table.add)

    def initialise(self, call: Callable[[], object]) -> None:
        """Let `call` fence the producers before this one."""
        call()
        if self._rows is not None:
            self._rows.is_initialised()

    def begin(self, call: Callable[[], object]) -> None:
        """Let `call` begin a transaction."""
        begin_ns = time.monotonic_ns()
        call()
        if self._rows is not None:
            self.number += 1
            self._rows.begins(self.number, begin_ns)
            self._records.in_transaction(self.number)

    def commit(self, call: Callable[[], object]) -> None:
        """Let `call` ask for the commit."""
        if self._open is not None:
            self._open.asks_for_commit()
        self._end(call, COMMITTED)

    def abort(self, call: Callable[[], object]) -> None:
        """Let `call` ask for the abort."""
        self._end(call, ABORTED)

    def leave(self) -> bool:
        """Whether the application left a transaction open; its row then says what is known."""
        if self._open is None:
            return False
        self._open.is_left()
        return True

    @property
    def _open(self) -> TransactionRows | None:
        return self._rows if self._rows is not None and self._rows.is_open else None

    def _end(self, call: Callable[[], object], outcome: str) -> None:
        rows = self._open
        try:
            call()
        except KafkaException as failure:
            error = failure.args[0]
            if rows is not None and error.fatal():
                rows.fails(error)
                self._records.in_transaction(None)
            raise
        if rows is not None:
            rows.ends(outcome)
            self._records.in_transaction(None)
