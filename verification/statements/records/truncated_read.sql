-- A consumer read it, or a member of a share group was given it; the final log lacks it.
-- unit: identities
-- row: where it was read first
-- needs: log
SELECT lane, producer_id, seq, MIN(first_read) AS place
FROM (
  SELECT lane, producer_id, seq, first_read
  FROM records
  WHERE first_read IS NOT NULL AND first_stored IS NULL
  UNION ALL
  SELECT d.lane, d.producer_id, d.seq, STRUCT(d.`partition`, d.`offset`)
  FROM deliveries d
  LEFT SEMI JOIN known k USING (lane, producer_id, seq)
  LEFT ANTI JOIN log g USING (lane, producer_id, seq)
) r
GROUP BY lane, producer_id, seq
