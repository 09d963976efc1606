"""The documented behaviours of Kafka, each as a scenario for the model and for real brokers."""
