-- Acknowledged at an offset, in the final log only at others; in a compacted lane, which keeps the last copy, only before it
-- or in other partitions.
-- unit: identities
-- row: the acknowledged position
-- needs: log
SELECT
  r.lane, r.producer_id, r.seq, r.`partition`, r.`offset`,
  'in the log at partition ' || r.first_stored.`partition` || ', offset ' || r.first_stored.`offset` AS cause
FROM records r
JOIN lanes l USING (lane)
LEFT ANTI JOIN stored s
  ON s.lane = r.lane AND s.producer_id = r.producer_id AND s.seq = r.seq AND s.`partition` = r.`partition`
  AND (s.`offset` = r.`offset` OR (l.compacted = 1 AND s.`offset` > r.`offset`))
WHERE r.acknowledged AND r.first_stored IS NOT NULL
