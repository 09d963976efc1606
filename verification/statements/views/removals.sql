-- Partitions whose retention by size had to remove something, and the first offset that it left on a broker that has nine
-- tenths of their `retention.bytes`. The broker that removes a segment may have an end that is lost later: the tenth.
-- keep: no
SELECT c.lane, c.`partition`, MAX(c.log_start) AS first
FROM checkpoints c
JOIN lanes l USING (lane)
WHERE c.log_bytes >= 0.9 * l.retention_bytes
GROUP BY c.lane, c.`partition`
