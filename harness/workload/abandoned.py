"""The end of a client that can't be closed in order: it must neither wait without end nor send anything more."""

from __future__ import annotations

import ctypes
from contextlib import suppress

from confluent_kafka import KafkaException, Producer


def abandon_client(client: Producer, *, open_transaction: bool) -> None:
    """End a producer whose records were delivered or purged.

    With an `open_transaction`, closing it would wait for an abort, without end if no coordinator answers. Freeing it
    without closing it corrupts the memory of the process (confluent-kafka 2.16.1, after it was fenced). So it stays
    with the process, idle, and its transaction stays open.
    """
    if open_transaction:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        return
    # It warns if a producer that failed for good can't abort; where warnings are errors, it raises both.
    with suppress(KafkaException, RuntimeWarning, SystemError):
        client.close()
