"""Links: relays in the connections to brokers and controllers, which understand Kafka's frames and may hold them."""
