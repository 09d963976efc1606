-- sent before the run began
-- of: produced
SELECT s.lane, s.producer_id, s.n
FROM sends_by_transaction s
JOIN lanes l ON l.lane = s.lane
WHERE s.first_ns < l.begun_ns
