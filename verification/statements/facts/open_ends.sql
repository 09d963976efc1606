-- Where the log ends within a transaction.
SELECT lane, `partition`, `offset`, hangs FROM open_ends ORDER BY lane, `partition`
