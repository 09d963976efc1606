-- a phase in which none of the lane's records was sent
-- of: events.jsonl
SELECT p.lane
FROM phases p
JOIN (SELECT lane, MIN(first_ns) AS first_ns, MAX(last_ns) AS last_ns FROM sends_by_transaction GROUP BY lane) s
  USING (lane)
WHERE s.last_ns < p.start_ns OR s.first_ns > p.end_ns
