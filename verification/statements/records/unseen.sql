-- In the final log, read by nobody, in a partition that some consumer read to its end. Without a log: acknowledged past
-- the highest offset read; the lane is then unknown.
--
-- In a transactional lane, committed records are due to all consumers, and others to read_uncommitted ones.
-- unit: identities
-- row: its lowest position where a delivery was due
SELECT s.lane, s.producer_id, s.seq, MIN(STRUCT(s.`partition`, s.`offset`)) AS place
FROM records r
JOIN stored s USING (lane, producer_id, seq)
JOIN lanes l USING (lane)
JOIN partition_ends e ON e.lane = s.lane AND e.`partition` = s.`partition`
LEFT JOIN visible v ON v.lane = s.lane AND v.`partition` = s.`partition` AND v.`offset` = s.`offset`
WHERE r.first_read IS NULL AND l.final_log = 1 AND CASE
  WHEN l.is_transactional = 0 OR v.`offset` IS NOT NULL THEN e.read_end >= e.visible_end
  ELSE e.uncommitted_read_end >= e.log_end
END
GROUP BY s.lane, s.producer_id, s.seq
UNION ALL
SELECT r.lane, r.producer_id, r.seq, STRUCT(r.`partition`, r.`offset`)
FROM records r
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e ON e.lane = r.lane AND e.`partition` = r.`partition`
WHERE l.final_log = 0 AND r.acknowledged AND r.first_read IS NULL AND NOT COALESCE(r.`offset` <= e.read_end, FALSE)
