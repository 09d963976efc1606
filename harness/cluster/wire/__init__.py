"""What brokers and controllers alone tell each other, as kafka-python's messages: their definitions, and requests made
up for one partition."""
