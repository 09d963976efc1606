"""What consumer groups and loops promise beyond others: their tables, their anomalies, and the evidence for these."""
