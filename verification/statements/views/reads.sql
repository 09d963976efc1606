-- The reads of produced records: a phantom counts as no other anomaly.
--
-- tables: consumed, known
-- keep: yes
SELECT c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq, c.poll_ns
FROM consumed c
LEFT SEMI JOIN known k ON k.lane = c.lane AND k.producer_id = c.producer_id AND k.seq = c.seq
