-- By loop the records that name no input.
SELECT p.lane, COUNT(*) AS n
FROM produced p
JOIN lanes l USING (lane)
WHERE l.loop = 1 AND (p.source_seq IS NULL OR p.source_producer_id IS NULL)
GROUP BY p.lane
