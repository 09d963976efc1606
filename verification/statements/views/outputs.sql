-- By input of a loop, how many outputs readers are given.
SELECT g.judged, g.`group`, g.lane, p.source_producer_id AS producer_id, p.source_seq AS seq, COUNT(*) AS n
FROM produced p
JOIN `groups` g ON g.judged = p.lane AND g.is_loop = 1
LEFT SEMI JOIN due s ON s.lane = p.lane AND s.producer_id = p.producer_id AND s.seq = p.seq
WHERE p.source_producer_id IS NOT NULL AND p.source_seq IS NOT NULL
GROUP BY g.judged, g.`group`, g.lane, p.source_producer_id, p.source_seq
