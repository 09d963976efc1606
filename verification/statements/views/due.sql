-- The rows of the log that every consumer must be given: in transactional lanes, those of committed records (`visible`).
-- keep: no
SELECT g.lane, g.`partition`, g.`offset`, g.producer_id, g.seq
FROM log g
JOIN lanes l USING (lane)
LEFT JOIN (SELECT DISTINCT * FROM visible) v ON v.lane = g.lane AND v.`partition` = g.`partition` AND v.`offset` = g.`offset`
WHERE l.is_transactional = 0 OR v.`offset` IS NOT NULL
