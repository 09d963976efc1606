-- begun before the one before it of its producer ended
-- of: transactions; rests: hanging_transaction, zombie_commit
SELECT lane, producer_id, `transaction`
FROM (
  SELECT
    *,
    LAG(COALESCE(end_ns, begin_ns)) OVER (PARTITION BY lane, producer_id ORDER BY `transaction`, begin_ns) AS before_ns
  FROM transactions
) t
WHERE begin_ns < before_ns
