-- a number below 0
-- of: produced
SELECT lane, producer_id, MIN(first_seq) AS seq
FROM sends_by_transaction
WHERE first_seq < 0 AND producer_id >= 0
GROUP BY lane, producer_id
