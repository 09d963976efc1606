"""The models of clusters, groups and transactions that scenarios play in lock step with real brokers."""
