-- Transactions depend on each other in a cycle: Adya's G0.
--
-- A committed transaction depends on another one if, in the final log of some partition, its committed records follow a
-- committed record of that. Kafka keeps the writes of concurrent transactions apart only in what it shows, not in the log,
-- so producers that work side by side may well form cycles. This history has no reads inside transactions: write-read
-- dependencies (G1c) are not known. `cycles` has the lowest transaction of each strongly connected component, found in
-- `dependencies`. Counted in components; the row names that transaction's first record.
--
-- unit: component
-- tables: cycles, outlines, members
SELECT
  c.lane, m.`partition`, m.`offset`, c.producer_id, m.seq,
  c.size || ' transactions of producers ' || c.producers AS cause
FROM cycles c
JOIN outlines o ON o.lane = c.lane AND o.producer_id = c.producer_id AND o.`transaction` = c.`transaction`
JOIN members m ON m.lane = o.lane AND m.producer_id = o.producer_id AND m.seq = o.first_seq
