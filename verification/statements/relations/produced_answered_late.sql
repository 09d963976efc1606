-- answered after its phase had ended
-- of: produced
SELECT DISTINCT s.lane
FROM sends_by_transaction s
JOIN (SELECT lane, MAX(end_ns) AS end_ns FROM phases GROUP BY lane) p ON p.lane = s.lane
JOIN lanes l ON l.lane = s.lane
WHERE l.planned = 1 AND s.answered_ns > p.end_ns
