"""The model of a lane: brokers, producer and consumers of one partition, their faults, and the anomalies shown."""
