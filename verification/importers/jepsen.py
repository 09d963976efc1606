"""An operation log of Jepsen's kafka workload, in EDN or JSON, as a run directory.

Guarantee: every micro-operation of a completed or unfinished `send`, `poll` or `txn` becomes rows; a line that is not
understood is an error that names it.

An operation has `type` (invoke, ok, fail, info), `process`, `f`, `value` and `time` (ns). Sends are `[:send k v]` when
invoked and `[:send k [offset v]]` when completed, polls `[:poll {k [[offset v] …]}]`. A key k is one partition of the
lane. A process is a producer: the n-th send of process p is the record (p, n), which a key and a value identify.

With transactions, each operation is one: committed (ok), aborted (fail) or in doubt (info). What one reads of whose
transaction is not committed, its process reads again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED, IN_DOUBT, READ_COMMITTED, Transactional
from kafka_chaos.verification.importers.jepsen_history import History, Sending, are_numbered, take
from kafka_chaos.verification.importers.operations import operations
from kafka_chaos.verification.importers.writing import HistoryError, RunWriter, new_run
from kafka_chaos.verification.inputs.storage import RunPath

PHANTOM = (-1, -1)
OUTCOMES = {"ok": COMMITTED, "fail": ABORTED, "info": IN_DOUBT}
"""The outcome of the transaction that an operation is."""


def import_jepsen(
    path: Path,
    out: str | RunPath,
    *,
    lane: str = "jepsen",
    transactional: bool | None = None,
    isolation: str = READ_COMMITTED,
    settings: Mapping[str, Any] | None = None,
) -> list[Lane]:
    """Write the run directory `out` from the operation log `path` (.edn, .json or .jsonl); one lane.

    `transactional`: whether operations were transactions; by default, if one of them is a `txn`. `isolation`: that of
    the consumers. `settings`: further keys of `lanes.json`, such as `acks` or `faults`. Raises `HistoryError`.
    """
    known = list(operations(path))
    if transactional is None:
        transactional = any(operation.get("f") == "txn" for _, operation in known)
    with new_run(out) as writer:
        history = History(transactional, are_numbered(operation for _, operation in known))
        for line, operation in known:
            try:
                take(history, operation)
            except ValueError as error:
                raise HistoryError(path, line, str(error)) from error
        if not history.partitions:
            raise HistoryError(path, None, "holds no send and no poll, expected operations of the kafka workload")
        rows = _Rows(history, writer, lane, isolation)
        for of_process in history.sending.values():
            for sent, after in zip_longest(of_process, of_process[1:]):
                rows.write_operation(sent, None if after is None else after.invoke_ns)
        rows.write_reads()
        entry = {"lane": lane, **(settings or {})}
        if history.transactional:
            sizes = [len(sending.sends) for of_process in history.sending.values() for sending in of_process]
            reads = any(within is not None for *_, within in history.reads)
            producers = Transactional(producers=max(1, len(history.sending)), size=max([1, *sizes]), reads=reads)
            entry |= {"idempotence": True, "transactional": producers.to_json()}
        made = replace(Lane.from_json(entry), topic=lane, partitions=max(history.partitions.values()) + 1)
        writer.finish([made])
    return [made]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Writes a history as the rows of a lane. `isolation`: the isolation level of its consumers."""

    history: History
    writer: RunWriter
    lane: str
    isolation: str

    def write_operation(self, sent: Sending, until_ns: int | None) -> None:
        """Write the records of an operation. If a read_committed consumer has read one of them, all were committed by
        then, and before the process began its next operation at `until_ns`."""
        kind, complete_ns, error = sent.type, sent.complete_ns, sent.error
        if self.history.transactional and kind == "info" and self.isolation == READ_COMMITTED:
            seen = self.history.seen
            read_ns = [seen[send.key, send.value] for send in sent.sends if (send.key, send.value) in seen]
            if read_ns:
                known_ns = max(min(read_ns), complete_ns or 0)
                kind, complete_ns, error = "ok", known_ns if until_ns is None else min(known_ns, until_ns), None
        common = {"lane": self.lane, "producer_id": sent.process, "error": error}
        for send in sent.sends:
            self.writer.row(
                "produced",
                seq=send.seq,
                key=str(send.key),
                partition=self.history.partition(send.key),
                offset=send.offset if isinstance(send.offset, int) and kind != "fail" else None,
                invoke_ns=sent.invoke_ns,
                complete_ns=complete_ns,
                outcome=kind,
                transaction=sent.number if self.history.transactional else None,
                **common,
            )
        if self.history.transactional:
            self.writer.row(
                "transactions",
                transaction=sent.number,
                transactional_id=f"process-{sent.process}",
                begin_ns=sent.invoke_ns,
                end_ns=complete_ns,
                outcome=OUTCOMES[kind],
                **common,
            )

    def write_reads(self) -> None:
        """Write the reads, after all sends: a record may be read before its send has an answer."""
        assigned: set[tuple[str, int]] = set()
        for consumer, offset, key, value, poll_ns, within in self.history.reads:
            producer_id, seq = self.history.identities.get((key, value), PHANTOM)
            partition = self.history.partition(key)
            where = {"lane": self.lane, "consumer": consumer, "partition": partition}
            read = {**where, "offset": offset, "producer_id": producer_id, "seq": seq, "poll_ns": poll_ns}
            if within is not None:
                read["reading_producer_id"], read["reading_transaction"] = within
            self.writer.row("consumed", **read)
            if self.history.transactional and (consumer, partition) not in assigned:
                assigned.add((consumer, partition))
                member = consumer.partition("/")[0]
                self.writer.row("assignments", **where, member=member, isolation=self.isolation, start_ns=poll_ns)
