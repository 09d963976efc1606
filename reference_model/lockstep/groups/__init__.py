"""A consumer group in lock step."""
