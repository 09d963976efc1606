"""Definitions of messages, in the form of Kafka's own."""
