-- a fault proven or healed after its phase had ended
-- of: events.jsonl
SELECT f.lane, f.fault
FROM faults f
JOIN phases p ON p.lane = f.lane
JOIN lanes l ON l.lane = f.lane
WHERE l.planned = 1 AND (f.proven_ns > p.end_ns OR f.healed_ns > p.end_ns)
