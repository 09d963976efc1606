-- a fault requested outside of its phase
-- of: events.jsonl
SELECT f.lane, f.fault
FROM faults f
JOIN phases p ON p.lane = f.lane
WHERE f.requested_ns < p.start_ns OR f.requested_ns > p.end_ns
