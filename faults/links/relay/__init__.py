"""Links: what stands in a connection to a broker or controller, understands Kafka's frames and may keep them back."""
