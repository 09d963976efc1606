"""Clusters of brokers in containers: starting, configuring, observing and controlling them."""
