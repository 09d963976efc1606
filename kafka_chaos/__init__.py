"""The import package of kafka-chaos: `kafka_chaos.harness`, `kafka_chaos.faults`, and so on.

What a test says of a run can be imported from here: `from kafka_chaos import kill, lane, load, partition, pause, stop`.
The folders themselves stand at the top of the repository; the entries beside this file are relative links to
them, so that an installed wheel claims the one name `kafka_chaos` (docs/decisions/0001-import-names.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_chaos.harness.pytest_plugin.values import kill, lane, load, partition, pause, stop

__version__ = "0.1.0"
__all__ = ["kill", "lane", "load", "partition", "pause", "stop"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        # Not imported above: verification alone imports nothing of the harness.
        from kafka_chaos.harness.pytest_plugin import values

        return getattr(values, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
