"""What brokers and controllers alone tell each other, as messages of kafka-python: their definitions."""
