-- of more transactional ids than lanes.json has producers
-- of: transactions; rests: dependency_cycle, zombie_commit
SELECT t.lane, COUNT(DISTINCT t.transactional_id) AS n
FROM transactions t
JOIN lanes l USING (lane)
WHERE l.is_transactional = 1
GROUP BY t.lane, l.producers, l.loop
HAVING (l.producers > 1 OR l.loop = 1) AND COUNT(DISTINCT t.transactional_id) > l.producers
