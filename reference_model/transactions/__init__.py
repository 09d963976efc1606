"""Kafka's transactions as rules: producers, coordinator, markers, readers, and what may go wrong between them."""
