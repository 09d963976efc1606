-- The consumers of transactional lanes without an assignment.
SELECT DISTINCT c.lane, c.consumer
FROM consumed c
JOIN lanes l ON l.lane = c.lane
LEFT ANTI JOIN isolation i ON i.lane = c.lane AND i.consumer = c.consumer
WHERE l.is_transactional = 1
