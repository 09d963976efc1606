"""Requests between brokers and controllers, as messages of kafka-python: their definitions."""
