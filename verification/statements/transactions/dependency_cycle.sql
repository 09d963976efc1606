-- Committed transactions depend on each other in a cycle: one depends on another if a committed record of it comes
-- after one of that, in any partition (Adya's G0), or if it read one of that (G1c).
--
-- Kafka keeps the writes of concurrent transactions apart only in what it shows, not in the log, so producers that work
-- side by side may well form cycles. A cycle by reads alone is a `precommitted_read`, too. `cycles` has the lowest
-- transaction of each strongly connected component, found in `dependencies`.
-- unit: strongly connected components
-- row: the first record of the lowest transaction
SELECT
  c.lane, m.`partition`, m.`offset`, c.producer_id, m.seq,
  c.size || ' transactions of producers ' || c.producers AS cause
FROM cycles c
JOIN transaction_summaries o USING (lane, producer_id, `transaction`)
JOIN transaction_records m ON m.lane = o.lane AND m.producer_id = o.producer_id AND m.seq = o.first_seq
WHERE c.by_reads = 0
