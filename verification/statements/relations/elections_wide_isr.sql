-- a leader elected with an ISR of more members than the partition has replicas
-- of: events.jsonl
SELECT e.lane, e.`partition`, e.leader_epoch
FROM elections e
JOIN lanes l ON l.lane = e.lane
LEFT JOIN (SELECT DISTINCT lane FROM faults WHERE kind = 'reassignment') f ON f.lane = e.lane
WHERE e.isr > l.replicas AND f.lane IS NULL
