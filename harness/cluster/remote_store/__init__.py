"""The remote store of a cluster with tiered storage (KIP-405): Kafka's plugin, where it keeps segments, its faults."""
