-- sent after its phase had ended
-- of: produced
SELECT s.lane, SUM(s.n) AS n
FROM sends_by_transaction s
JOIN (SELECT lane, MAX(end_ns) AS end_ns FROM phases GROUP BY lane) p ON p.lane = s.lane
WHERE s.last_ns > p.end_ns
GROUP BY s.lane
