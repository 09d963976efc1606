-- read before the run began, or after its phase had ended
-- of: consumed
SELECT r.lane, r.consumer, r.`partition`, r.n
FROM reads_by_partition r
JOIN lanes l ON l.lane = r.lane
LEFT JOIN (SELECT lane, MAX(end_ns) AS end_ns FROM phases GROUP BY lane) p ON p.lane = r.lane
WHERE r.first_ns < l.begun_ns OR (l.planned = 1 AND r.last_ns > p.end_ns)
