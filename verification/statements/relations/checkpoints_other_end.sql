-- a high watermark past the log end offset, or another end than the replica's
-- of: checkpoints.json; rests: replica_divergence
SELECT c.lane, c.`partition`, c.broker
FROM checkpoints c
JOIN lanes l ON l.lane = c.lane
LEFT JOIN (SELECT lane, `partition`, broker, MAX(last) AS last FROM epochs GROUP BY lane, `partition`, broker) e
  ON e.lane = c.lane AND e.`partition` = c.`partition` AND e.broker = c.broker
WHERE c.high_watermark > c.log_end_offset
  OR (l.cleaned = 0 AND c.log_end_offset <> e.last + 1) OR (l.planned = 1 AND c.log_end_offset IS NULL)
