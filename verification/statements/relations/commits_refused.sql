-- refused, though its transaction was committed
-- of: commits; rests: of_commits, of_loops
SELECT c.judged AS lane, c.`group`, c.`partition`, c.`offset`
FROM group_commits c
JOIN transactions t ON t.lane = c.judged AND t.producer_id = c.producer_id AND t.`transaction` = c.`transaction`
LEFT JOIN (
  SELECT DISTINCT `group`, `partition`, producer_id, `transaction` FROM commits WHERE outcome <> 'fail'
) o
  ON o.`group` = c.`group` AND o.`partition` = c.`partition` AND o.producer_id = c.producer_id
  AND o.`transaction` = c.`transaction`
WHERE c.outcome = 'fail' AND t.outcome = 'committed' AND o.`group` IS NULL
