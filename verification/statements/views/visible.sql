-- The places of transactional lanes that every consumer must be given: those of committed records. Without a final log,
-- the places of which producers and readers were told that they are committed. In other lanes, that is the whole log.
SELECT lane, `partition`, `offset` FROM fates WHERE fate = 'commit'
UNION ALL
SELECT k.lane, k.`partition`, k.`offset`
FROM known k
JOIN lanes l USING (lane)
WHERE l.is_transactional = 1 AND l.final_log = 0 AND k.acknowledged AND k.`transaction` IS NOT NULL
UNION ALL
SELECT c.lane, c.`partition`, c.`offset`
FROM consumed c
JOIN lanes l USING (lane)
JOIN isolation i USING (lane, consumer)
WHERE l.is_transactional = 1 AND l.final_log = 0 AND i.isolation = 'read_committed'
