-- The records of transactions, in transactional lanes, each with the place at which it was acknowledged.
-- keep: no
SELECT
  p.lane, p.producer_id, p.`transaction`, p.seq,
  CASE WHEN p.outcome = 'ok' AND p.`offset` IS NOT NULL THEN p.`partition` END AS `partition`,
  CASE WHEN p.outcome = 'ok' AND p.`partition` IS NOT NULL THEN p.`offset` END AS `offset`
FROM produced p
JOIN lanes l USING (lane)
WHERE p.`transaction` IS NOT NULL AND l.is_transactional = 1
