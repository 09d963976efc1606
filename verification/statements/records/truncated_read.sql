-- A consumer read it, or a member of a share group was given it; the final log lacks it, though neither compaction nor
-- retention can have removed it.
-- unit: identities
-- row: where it was read first
-- needs: log
SELECT r.lane, r.producer_id, r.seq, MIN(r.first_read) AS place
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
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e ON e.lane = r.lane AND e.`partition` = r.first_read.`partition`
LEFT JOIN missing m ON m.lane = r.lane AND m.producer_id = r.producer_id AND m.seq = r.seq
WHERE CASE WHEN l.cleaned = l.compacted THEN l.compacted = 0 OR m.is_lost = 1 ELSE r.first_read.`offset` >= e.log_start END
GROUP BY r.lane, r.producer_id, r.seq
