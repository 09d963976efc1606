-- in a transaction that transactions/ lacks, or not while it was open
-- of: commits; rests: of_commits, of_loops
SELECT c.judged AS lane, c.`group`, c.`partition`, c.`offset`
FROM group_commits c
LEFT JOIN transactions t ON t.lane = c.judged AND t.producer_id = c.producer_id AND t.`transaction` = c.`transaction`
WHERE c.`transaction` IS NOT NULL AND (
  t.lane IS NULL OR c.invoke_ns < t.begin_ns OR c.invoke_ns > t.end_ns OR (c.outcome = 'ok' AND c.complete_ns > t.end_ns)
)
