"""The Spark session, its Kafka source's jars, and the script for spark-submit."""
