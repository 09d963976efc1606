-- By lane the acknowledged records whose fate neither the log nor a read shows; in a compacted lane, those of which nobody can
-- say whether compaction removed them.
SELECT r.lane, COUNT(*) AS n
FROM records r
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e USING (lane, `partition`)
LEFT JOIN removals d USING (lane, `partition`)
LEFT JOIN missing m ON m.lane = r.lane AND m.producer_id = r.producer_id AND m.seq = r.seq
WHERE (l.final_log = 0 OR l.cleaned = 1) AND r.outcome = 'ok' AND CASE
  WHEN l.final_log * l.compacted = 1 THEN m.seq IS NOT NULL AND m.is_lost IS NULL
  WHEN r.first_read IS NOT NULL THEN FALSE
  WHEN l.final_log = 1 THEN r.first_stored IS NULL
    AND (l.retention_bytes IS NULL OR NOT r.acknowledged OR r.`offset` < COALESCE(d.first, 0))
  ELSE l.cleaned = 1 OR NOT COALESCE(r.acknowledged AND r.`offset` <= e.read_end, FALSE)
END
GROUP BY r.lane
