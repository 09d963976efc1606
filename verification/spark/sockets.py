"""Keeps PySpark's own warnings out of users' sessions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pyspark_sockets_ignored() -> Iterator[None]:
    """Wrap a function that collects with PySpark, which leaves it to Python to close the sockets of results.

    Each socket would cause a ResourceWarning, an error where warnings are errors. The filters are restored afterwards.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="unclosed <socket", category=ResourceWarning)
        yield
