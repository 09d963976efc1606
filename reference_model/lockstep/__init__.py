"""The cluster model that scenarios play in lock step with real brokers."""
