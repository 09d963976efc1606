"""The behaviours that the seed documents tell of, each as a scenario for the model and for real brokers."""

ORDER = (
    "leader-epoch-A",
    "leader-epoch-B",
)
"""The scenarios in the order in which they are listed, run and documented."""
