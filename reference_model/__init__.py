"""An executable specification of Kafka's replication, and the judge of every run. Pure Python, no I/O."""
