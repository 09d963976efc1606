-- of: events.jsonl
SELECT
  e.lane, e.`partition`, e.leader_epoch,
  e.in_isr = 0 AS `a leader elected that is not in its ISR`,
  e.isr > l.replicas AND f.lane IS NULL AS `a leader elected with an ISR of more members than the partition has replicas`
FROM elections e
JOIN lanes l USING (lane)
LEFT JOIN (SELECT DISTINCT lane FROM faults WHERE kind = 'reassignment') f ON f.lane = e.lane
