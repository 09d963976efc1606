"""The lane as a machine: brokers, producer and consumers of one partition, what may befall them, what that shows."""
