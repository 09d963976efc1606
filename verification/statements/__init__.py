"""The verdict in SQL: what is a case of an anomaly, what a fact, each as one statement in Spark's dialect."""
