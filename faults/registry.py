"""Fault kinds by name: what an experiment can ask for."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.partition import Partition
from kafka_chaos.faults.process import Kill, Pause, Stop

FAULTS: Mapping[str, type[Kill | Stop | Pause | Partition]] = {
    fault.kind: fault for fault in (Kill, Stop, Pause, Partition)
}

__all__ = ["FAULTS", "Fault"]
