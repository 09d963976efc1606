"""What Kafka gives its clients: consumer groups and transactions."""
