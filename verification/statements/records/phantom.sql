-- In the log or read, but never produced, or undecodable (−1, −1).
--
-- unit: (partition, offset)
-- row: the highest identity there
SELECT lane, `partition`, `offset`, highest.producer_id AS producer_id, highest.seq AS seq
FROM (
  SELECT lane, `partition`, `offset`, MAX(STRUCT(producer_id, seq)) AS highest
  FROM phantoms
  GROUP BY lane, `partition`, `offset`
) q
