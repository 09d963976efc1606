-- In the log or read, but never produced, or undecodable. Counted in (partition, offset).
--
-- If a position has several, the row names the highest identity.
--
-- unit: position
-- tables: phantoms
SELECT lane, `partition`, `offset`, highest.producer_id AS producer_id, highest.seq AS seq
FROM (
  SELECT lane, `partition`, `offset`, MAX(STRUCT(producer_id, seq)) AS highest
  FROM phantoms
  GROUP BY lane, `partition`, `offset`
) q
