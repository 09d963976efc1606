-- Acknowledged at an offset, in the final log only at others. Where compaction keeps the last copy, or retention may have
-- removed the first, later offsets of that partition do not count.
-- unit: identities
-- row: the acknowledged position
-- needs: log
SELECT
  r.lane, r.producer_id, r.seq, r.`partition`, r.`offset`,
  'in the log at partition ' || r.first_stored.`partition` || ', offset ' || r.first_stored.`offset` AS cause
FROM records r
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e USING (lane, `partition`)
LEFT ANTI JOIN stored s
  ON s.lane = r.lane AND s.producer_id = r.producer_id AND s.seq = r.seq AND s.`partition` = r.`partition`
  AND (s.`offset` = r.`offset` OR (s.`offset` > r.`offset` AND (l.compacted = 1 OR l.cleaned * e.log_start > r.`offset`)))
WHERE r.acknowledged AND r.first_stored IS NOT NULL
