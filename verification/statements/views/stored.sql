-- The places of produced records in doubt in the final log, each once; without one, in reads and acknowledgements.
SELECT g.lane, g.producer_id, g.seq, g.`partition`, g.`offset`
FROM suspect_log g
LEFT SEMI JOIN suspect_sends k USING (lane, producer_id, seq)
UNION
SELECT r.lane, r.producer_id, r.seq, r.`partition`, r.`offset`
FROM reads r
JOIN lanes l USING (lane)
WHERE l.final_log = 0
UNION
SELECT k.lane, k.producer_id, k.seq, k.`partition`, k.`offset`
FROM suspect_sends k
JOIN lanes l USING (lane)
WHERE l.final_log = 0 AND k.acknowledged
