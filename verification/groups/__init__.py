"""Consumer groups and loops: their tables, their anomalies, and the evidence for these."""
