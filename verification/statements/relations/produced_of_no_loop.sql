-- made of an input, though the lane is no loop's
-- of: produced
SELECT s.lane, s.producer_id, s.sources AS n
FROM sends_by_transaction s
JOIN lanes l USING (lane)
WHERE l.loop = 0 AND s.sources > 0
