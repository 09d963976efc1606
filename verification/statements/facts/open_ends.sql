-- Where the log ends within a transaction.
SELECT lane, `partition`, `offset`, producer_id, seq, `transaction`, last_ns FROM open_ends ORDER BY lane, `partition`
