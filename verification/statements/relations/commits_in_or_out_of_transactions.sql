-- in a transaction though the group uses none, or in none though it does
-- of: commits; rests: of_commits, of_loops
SELECT c.judged AS lane, c.`group`, c.`partition`, c.`offset`
FROM group_commits c
WHERE (c.in_transaction = 1 AND (c.`transaction` IS NULL OR c.producer_id IS NULL))
  OR (c.in_transaction = 0 AND (c.`transaction` IS NOT NULL OR c.producer_id IS NOT NULL))
