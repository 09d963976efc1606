"""The second opinion: what the anomalies are, without Spark; tests compare both, row by row."""
