-- The records of transactions that may have been written, and are not committed in the final log.
SELECT p.lane, p.producer_id, p.`transaction`, p.seq, p.outcome
FROM produced p
LEFT ANTI JOIN (SELECT * FROM fates WHERE fate = 'commit') f USING (lane, producer_id, seq)
WHERE p.`transaction` IS NOT NULL AND p.outcome <> 'fail'
