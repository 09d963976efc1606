-- committed, without the time at which its producer was initialised, one of several of its transactional id
-- of: transactions; rests: zombie_commit
SELECT t.lane, t.producer_id, t.`transaction`
FROM transactions t
JOIN (
  SELECT lane, transactional_id
  FROM transactions
  GROUP BY lane, transactional_id
  HAVING COUNT(DISTINCT producer_id) > 1
) m ON m.lane = t.lane AND m.transactional_id = t.transactional_id
WHERE t.outcome = 'committed' AND t.initialised_ns IS NULL
