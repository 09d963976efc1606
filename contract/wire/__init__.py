"""Kafka's protocol: the messages of kafka-python, and those between brokers and controllers, with their definitions."""
