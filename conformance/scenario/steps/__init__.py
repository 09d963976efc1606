"""The steps that files of scenarios name, each the same on Kafka and in the model."""
