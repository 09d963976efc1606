"""The behaviours that the seed documents tell of, each as a scenario for the model and for real brokers."""

ORDER = (
    "leader-only",
    "replication-describe",
    "n-minus-1-failures",
    "isr-eviction",
    "high-watermark-visibility",
    "offset-checkpoint",
    "ackless-replication",
    "leader-epoch-A",
    "leader-epoch-B",
    "controller-failover",
    "election-on-failure",
    "controlled-shutdown",
    "acks-all-recovery",
    "acks-1-recovery",
    "acks-0",
    "unclean-election",
    "min-insync-replicas",
    "no-loss-config",
    "availability-config",
)
"""The scenarios in the order in which they are listed, run and documented."""
