-- given to a member before the run began, or after its phase had ended
-- of: deliveries
SELECT d.lane, d.`partition`, d.`offset`
FROM deliveries d
JOIN lanes l ON l.lane = d.lane
LEFT JOIN (SELECT lane, MAX(end_ns) AS end_ns FROM phases GROUP BY lane) p ON p.lane = d.lane
WHERE d.delivered_ns < l.begun_ns OR (l.planned = 1 AND d.delivered_ns > p.end_ns)
