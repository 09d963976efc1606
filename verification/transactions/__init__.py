"""What transactional lanes promise beyond others: their tables, their anomalies, and the evidence for these."""
