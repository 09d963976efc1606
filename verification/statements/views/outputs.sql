-- By input of a loop, how many outputs readers are given.
--
-- keep: yes
SELECT g.judged, g.`group`, g.lane, p.source_producer_id AS producer_id, p.source_seq AS seq, COUNT(*) AS n
FROM produced p
JOIN `groups` g ON g.judged = p.lane AND g.is_loop = 1
LEFT SEMI JOIN (
  SELECT s.lane, s.producer_id, s.seq
  FROM log s
  JOIN lanes l ON l.lane = s.lane
  LEFT JOIN visible v ON v.lane = s.lane AND v.`partition` = s.`partition` AND v.`offset` = s.`offset`
  WHERE l.is_transactional = 0 OR v.`offset` IS NOT NULL
) s ON s.lane = p.lane AND s.producer_id = p.producer_id AND s.seq = p.seq
WHERE p.source_producer_id IS NOT NULL AND p.source_seq IS NOT NULL
GROUP BY g.judged, g.`group`, g.lane, p.source_producer_id, p.source_seq
