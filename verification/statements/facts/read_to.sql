-- By partition of a transactional lane the highest offset that a read_committed consumer read.
SELECT r.lane, r.`partition`, MAX(r.`offset`) AS read_to
FROM committed_reads r
JOIN lanes l ON l.lane = r.lane
WHERE l.is_transactional = 1
GROUP BY r.lane, r.`partition`
