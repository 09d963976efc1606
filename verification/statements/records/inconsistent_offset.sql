-- Two identities at one position, over acknowledgements, reads and log; the offset of an `info` counts only once its
-- record was read or is in the log.
--
-- unit: (partition, offset)
-- row: the highest identity; the cause names the lowest
SELECT
  lane, `partition`, `offset`, highest.producer_id AS producer_id, highest.seq AS seq,
  'also producer ' || lowest.producer_id || ', seq ' || lowest.seq AS cause
FROM (
  SELECT
    lane, `partition`, `offset`,
    MIN(STRUCT(producer_id, seq)) AS lowest,
    MAX(STRUCT(producer_id, seq)) AS highest
  FROM shown
  GROUP BY lane, `partition`, `offset`
) q
WHERE lowest <> highest
