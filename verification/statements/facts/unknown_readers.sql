-- The consumers of transactional lanes without an assignment.
SELECT DISTINCT c.lane, c.consumer
FROM consumed c
JOIN lanes l USING (lane)
LEFT ANTI JOIN isolation i USING (lane, consumer)
WHERE l.is_transactional = 1
