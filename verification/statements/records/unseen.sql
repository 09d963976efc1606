-- In the final log, read by nobody, in a partition that some consumer read to its end. So is a committed record that no
-- `read_committed` consumer read, where one of these read to the end. Without a log: acknowledged past the highest offset
-- read; the lane is then unknown.
--
-- In a transactional lane, committed records are due to all consumers, and others to read_uncommitted ones. Where a marker
-- may get lost that read_committed consumers have passed, another one may decide about records that they are past.
-- unit: identities
-- row: its lowest position where a delivery was due
SELECT
  s.lane, s.producer_id, s.seq, MIN(STRUCT(s.`partition`, s.`offset`)) AS place,
  CASE WHEN MAX(r.first_read) IS NOT NULL THEN 'read by no read_committed consumer' END AS cause
FROM records r
JOIN stored s USING (lane, producer_id, seq)
JOIN lanes l USING (lane)
JOIN partition_ends e ON e.lane = s.lane AND e.`partition` = s.`partition`
LEFT JOIN visible v ON v.lane = s.lane AND v.`partition` = s.`partition` AND v.`offset` = s.`offset`
LEFT JOIN (
  SELECT DISTINCT r.lane, r.producer_id, r.seq
  FROM reads r
  JOIN isolation i ON i.lane = r.lane AND i.consumer = r.consumer AND i.isolation = 'read_committed'
) c ON c.lane = s.lane AND c.producer_id = s.producer_id AND c.seq = s.seq
WHERE l.final_log = 1 AND c.lane IS NULL AND CASE
  WHEN r.first_read IS NOT NULL
    THEN l.is_transactional = 1 AND l.lossless = 1 AND v.`offset` IS NOT NULL AND e.committed_read_end >= e.visible_end
  WHEN l.is_transactional = 0 OR v.`offset` IS NOT NULL THEN e.read_end >= e.visible_end
  ELSE e.uncommitted_read_end >= e.log_end
END
GROUP BY s.lane, s.producer_id, s.seq
UNION ALL
SELECT r.lane, r.producer_id, r.seq, STRUCT(r.`partition`, r.`offset`), NULL
FROM records r
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e ON e.lane = r.lane AND e.`partition` = r.`partition`
WHERE l.final_log = 0 AND r.acknowledged AND r.first_read IS NULL AND NOT COALESCE(r.`offset` <= e.read_end, FALSE)
