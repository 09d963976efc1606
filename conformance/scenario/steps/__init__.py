"""The steps that scenario files name, each the same on Kafka and in the model."""
