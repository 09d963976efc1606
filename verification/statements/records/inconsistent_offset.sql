-- Two different identities at one (partition, offset), over acknowledgements, reads and log.
--
-- The offset of an `info` row counts only once its record was read or is in the log. Counted in (partition, offset); the
-- row names the highest identity, its cause the lowest.
--
-- unit: position
-- tables: shown
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
