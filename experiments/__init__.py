"""Experiments as YAML files, and the documented behaviours of Kafka as scenarios."""
