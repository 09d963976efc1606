"""The remote store of a cluster with tiered storage (KIP-405): Kafka's plugin, and where it keeps segments."""
