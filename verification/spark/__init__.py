"""The Spark session and its settings."""
