-- one producer under several transactional ids
-- of: transactions; rests: zombie_commit, of_log
SELECT lane, producer_id
FROM transactions
GROUP BY lane, producer_id
HAVING COUNT(DISTINCT transactional_id) > 1
