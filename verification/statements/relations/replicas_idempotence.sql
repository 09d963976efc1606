-- with producer epochs, though the lane is not idempotent, or without them, though it is
-- of: replicas
SELECT w.lane, w.`partition`, w.producer_id
FROM writings w
JOIN lanes l USING (lane)
WHERE NOT w.is_marker AND w.producer_id >= 0 AND ((l.idempotent = 0 AND w.last_epoch >= 0) OR (l.idempotent = 1 AND w.first_epoch < 0))
