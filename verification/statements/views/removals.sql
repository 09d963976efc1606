-- Partitions whose retention by size had to remove something, and the first offset that it left: nine tenths of their
-- `retention.bytes` are there. The broker that removes a segment may have an end of the log that is lost later: that is the
-- tenth.
-- keep: no
SELECT c.lane, c.`partition`, MAX(c.log_start) AS first
FROM checkpoints c
JOIN lanes l USING (lane)
WHERE l.retention_bytes IS NOT NULL
GROUP BY c.lane, c.`partition`
HAVING 10 * MAX(c.log_bytes) >= 9 * MAX(l.retention_bytes)
