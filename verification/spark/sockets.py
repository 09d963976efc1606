"""PySpark's own warnings, kept out of the sessions of others."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pyspark_sockets_ignored() -> Iterator[None]:
    """For a function that collects with PySpark, which leaves the sockets that carry results to be closed by Python.

    Each would be a ResourceWarning, and an error where warnings are errors. The filters are as before afterwards.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="unclosed <socket", category=ResourceWarning)
        yield
