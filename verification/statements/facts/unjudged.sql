-- By lane the acknowledged records whose fate neither the log nor a read shows.
SELECT r.lane, COUNT(*) AS n
FROM records r
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e USING (lane, `partition`)
LEFT JOIN removals d USING (lane, `partition`)
WHERE (l.final_log = 0 OR l.cleaned = 1) AND r.outcome = 'ok' AND r.first_read IS NULL AND CASE
  WHEN l.final_log = 1 THEN r.first_stored IS NULL
    AND (l.retention_bytes IS NULL OR NOT r.acknowledged OR r.`offset` < COALESCE(d.first, 0))
  ELSE NOT COALESCE(r.acknowledged AND r.`offset` <= e.read_end, FALSE)
END
GROUP BY r.lane
