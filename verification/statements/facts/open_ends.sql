-- Where the log ends within a transaction.
--
-- tables: open_ends
SELECT lane, `partition`, `offset`, producer_id, seq, `transaction`, last_ns FROM open_ends ORDER BY lane, `partition`
