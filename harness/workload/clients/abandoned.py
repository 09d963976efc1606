"""The end of a client that can't be closed in order: it must neither wait without end nor send anything more."""

import ctypes
import warnings
from contextlib import suppress

from confluent_kafka import KafkaException, Producer

# What a producer warns of that failed for good: nobody can do anything about it. For pytest, which has filters of its
# own, the plugin has the same one.
warnings.filterwarnings("ignore", message="Producer abort_transaction failed during close", category=RuntimeWarning)


def abandon_client(client: Producer, *, open_transaction: bool) -> None:
    """End a producer whose records were delivered or purged.

    With an `open_transaction`, closing it would wait for an abort, without end if no coordinator answers. Freeing it
    without closing it corrupts the memory of the process (confluent-kafka 2.16.1, after it was fenced). So it stays
    with the process, idle, and its transaction stays open.
    """
    if open_transaction:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        return
    # Where warnings are errors, it raises both.
    with suppress(KafkaException, RuntimeWarning, SystemError):
        client.close()
