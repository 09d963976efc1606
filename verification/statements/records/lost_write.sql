-- Outcome `ok`, not in the final log, though neither compaction nor retention can have removed it. Without a final log, in a
-- lane that keeps its records: it has an offset, a record at or past it was read in its partition, and nobody read it.
--
-- For acks=0, `ok` means handed to the socket. What retention by size had to remove is not counted (`removals`), nor what
-- compaction may have removed (`missing`), nor what other retention may have: all that lies before the log.
-- unit: identities
-- row: where it was acknowledged
SELECT
  r.lane, r.producer_id, r.seq,
  CASE WHEN r.acknowledged THEN r.`partition` END AS `partition`,
  CASE WHEN r.acknowledged THEN r.`offset` END AS `offset`
FROM records r
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e USING (lane, `partition`)
LEFT JOIN removals d USING (lane, `partition`)
LEFT JOIN missing m ON m.lane = r.lane AND m.producer_id = r.producer_id AND m.seq = r.seq
WHERE r.outcome = 'ok' AND (
  (
    l.final_log = 1 AND r.first_stored IS NULL AND (l.compacted = 0 OR m.is_lost = 1)
    AND (l.cleaned = l.compacted OR (
      r.acknowledged AND r.`offset` >= CASE WHEN l.retention_bytes IS NULL THEN e.log_start ELSE COALESCE(d.first, 0) END
    ))
  )
  OR (l.final_log = 0 AND l.cleaned = 0 AND r.acknowledged AND r.`offset` <= e.read_end AND r.first_read IS NULL)
)
