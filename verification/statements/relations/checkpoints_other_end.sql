-- a high watermark past the log end offset, or another end than the replica's
-- of: checkpoints.json; rests: replica_divergence
SELECT c.lane, c.`partition`, c.broker
FROM checkpoints c
JOIN lanes l USING (lane)
LEFT JOIN (SELECT lane, `partition`, broker, MAX(last) AS last FROM epochs GROUP BY lane, `partition`, broker) e
  USING (lane, `partition`, broker)
WHERE c.high_watermark > c.log_end_offset
  OR (l.cleaned = 0 AND c.log_end_offset <> e.last + 1) OR (l.planned = 1 AND c.log_end_offset IS NULL)
