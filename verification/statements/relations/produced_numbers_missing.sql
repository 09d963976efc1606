-- without numbers of a producer that come before others
-- of: produced
SELECT s.lane, s.producer_id, MAX(s.last_seq) AS up_to_seq, MAX(s.last_seq) + 1 - SUM(s.n) AS n
FROM sends_by_transaction s
JOIN lanes l USING (lane)
WHERE l.planned = 1
GROUP BY s.lane, s.producer_id
HAVING SUM(s.n) <= MAX(s.last_seq)
