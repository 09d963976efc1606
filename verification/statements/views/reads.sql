-- The reads of produced records in doubt: a phantom counts as no other anomaly.
SELECT c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq
FROM suspect_reads c
LEFT SEMI JOIN suspect_sends k USING (lane, producer_id, seq)
