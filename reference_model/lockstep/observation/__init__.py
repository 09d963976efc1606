"""What is seen of brokers, groups and transactions between two steps, and how it differs from what the model allows."""
