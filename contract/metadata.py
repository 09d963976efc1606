"""Where a cluster keeps its metadata: the metadata modes, as `metadata_mode` in lanes.json names them."""

from __future__ import annotations

ZOOKEEPER = "zookeeper"
KRAFT = "kraft"
METADATA_MODES = (ZOOKEEPER, KRAFT)
