"""The import package of kafka-chaos: `kafka_chaos.harness`, `kafka_chaos.faults`, and so on.

The vocabulary of a test is imported from here: `from kafka_chaos import kill, lane, load, partition, pause, stop`, and
any other installed fault kind by its name. The packages themselves live at the repository root; the entries beside
this file are relative links to them, so that an installed wheel claims only the name `kafka_chaos`
(docs/decisions/0001-layout-and-layers.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_chaos.harness.pytest_plugin.values import PlannedFault, fault, lane, load

    kill: Callable[..., PlannedFault]
    partition: Callable[..., PlannedFault]
    pause: Callable[..., PlannedFault]
    stop: Callable[..., PlannedFault]

__version__ = "0.1.0"
__all__ = ["fault", "kill", "lane", "load", "partition", "pause", "stop"]


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        # Not imported above: verification alone imports nothing of the harness.
        from kafka_chaos.faults.registry import fault_kinds
        from kafka_chaos.harness.pytest_plugin import values

        if name in ("fault", "lane", "load"):
            return getattr(values, name)
        if name in fault_kinds():
            return values.fault_function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
