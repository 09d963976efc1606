-- Two identities at one position, over acknowledgements, reads, deliveries and log; the offset of an `info` counts only
-- once its record was read or is in the log.
-- unit: (partition, offset)
-- row: the highest identity; the cause names the lowest
SELECT
  lane, `partition`, `offset`, highest AS record,
  'also producer ' || lowest.producer_id || ', seq ' || lowest.seq AS cause
FROM (
  SELECT
    lane, `partition`, `offset`,
    MIN(STRUCT(producer_id, seq)) AS lowest, MAX(STRUCT(producer_id, seq)) AS highest
  FROM (
    SELECT lane, `partition`, `offset`, producer_id, seq FROM stored
    UNION ALL
    SELECT lane, `partition`, `offset`, producer_id, seq FROM reads
    UNION ALL
    SELECT lane, `partition`, `offset`, producer_id, seq
    FROM (
      SELECT lane, `partition`, `offset`, producer_id, seq FROM log
      UNION ALL SELECT lane, `partition`, `offset`, producer_id, seq FROM deliveries
    ) g
    LEFT SEMI JOIN deliveries d USING (lane, `partition`, `offset`)
    LEFT SEMI JOIN known k USING (lane, producer_id, seq)
    UNION ALL
    SELECT lane, `partition`, `offset`, producer_id, seq
    FROM records
    WHERE acknowledged OR (claimed AND COALESCE(first_stored, first_read) IS NOT NULL)
  ) q
  GROUP BY lane, `partition`, `offset`
) q
WHERE lowest <> highest
