-- of: events.jsonl
SELECT
  f.lane, f.fault,
  f.requested_ns < p.start_ns OR f.requested_ns > p.end_ns AS `a fault requested outside of its phase`,
  l.planned = 1 AND (f.proven_ns > p.end_ns OR f.healed_ns > p.end_ns) AS `a fault proven or healed after its phase had ended`
FROM faults f
JOIN phases p USING (lane)
JOIN lanes l USING (lane)
