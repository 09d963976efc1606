"""Topics of a live cluster, read with Spark's Kafka source."""
