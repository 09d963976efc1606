"""The replication protocol's variants: each names a truncation rule and a fencing rule.

The weaker ones are negative controls: a model that finds nothing wrong with them sees nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_chaos.reference_model.protocols import (
    kip101,
    kip101_fenced,
    kip279,
    kip320,
    truncate_to_high_watermark,
)
from kafka_chaos.reference_model.protocols.rules import Protocol

PROTOCOLS: Mapping[str, Protocol] = {
    module.PROTOCOL.name: module.PROTOCOL
    for module in (truncate_to_high_watermark, kip101, kip279, kip320, kip101_fenced)
}

__all__ = ["PROTOCOLS", "Protocol"]
