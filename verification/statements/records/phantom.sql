-- In the log, read, or given to a member of a share group, but never produced, or undecodable (−1, −1).
-- unit: (partition, offset)
-- row: the highest identity there
SELECT lane, `partition`, `offset`, MAX(STRUCT(producer_id, seq)) AS record
FROM (
  SELECT lane, `partition`, `offset`, producer_id, seq FROM phantoms
  UNION ALL
  SELECT d.lane, d.`partition`, d.`offset`, d.producer_id, d.seq
  FROM deliveries d
  LEFT ANTI JOIN known k USING (lane, producer_id, seq)
) p
GROUP BY lane, `partition`, `offset`
