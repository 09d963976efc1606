-- of: commits; rests: of_commits
SELECT
  c.judged AS lane, c.`group`, c.`partition`, c.`offset`,
  c.outcome = 'ok' AND c.error IS NOT NULL AS `acknowledged, with an error`,
  c.outcome = 'ok' AND c.complete_ns IS NULL AND c.`transaction` IS NULL AS `acknowledged, without a time at which it was`,
  c.outcome <> 'fail' AND c.`offset` > COALESCE(e.last, -1) + 1 AND l.lossless = 1
    AND NOT COALESCE(f.`offset` >= c.`offset`, FALSE) AS `past the end of the log`,
  k.`group` IS NOT NULL AND a.consumer IS NULL AS `by a consumer that was not assigned the partition`,
  (c.in_transaction = 1 AND (c.`transaction` IS NULL OR c.producer_id IS NULL))
    OR (c.in_transaction = 0 AND (c.`transaction` IS NOT NULL OR c.producer_id IS NOT NULL))
    AS `in a transaction though the group uses none, or in none though it does`, -- rests: of_commits, of_loops
  c.`transaction` IS NOT NULL AND (
    t.lane IS NULL OR c.invoke_ns < t.begin_ns OR c.invoke_ns > t.end_ns OR (c.outcome = 'ok' AND c.complete_ns > t.end_ns)
  ) AS `in a transaction that transactions/ lacks, or not while it was open`, -- rests: of_commits, of_loops
  c.outcome = 'fail' AND t.outcome = 'committed' AND o.`group` IS NULL
    AS `refused, though its transaction was committed` -- rests: of_commits, of_loops
FROM group_commits c
JOIN lanes l USING (lane)
LEFT JOIN log_ends e USING (lane, `partition`)
LEFT JOIN `final` f ON f.`group` = c.`group` AND f.`partition` = c.`partition`
LEFT JOIN transactions t ON t.lane = c.judged AND t.producer_id = c.producer_id AND t.`transaction` = c.`transaction`
LEFT JOIN (
  SELECT DISTINCT `group`, `partition`, producer_id, `transaction` FROM commits WHERE outcome <> 'fail'
) o
  ON o.`group` = c.`group` AND o.`partition` = c.`partition` AND o.producer_id = c.producer_id
  AND o.`transaction` = c.`transaction`
LEFT JOIN (SELECT DISTINCT `group` FROM assignments) k ON k.`group` = c.`group`
LEFT JOIN (SELECT DISTINCT `group`, consumer, `partition` FROM assignments) a
  ON a.`group` = c.`group` AND a.consumer = c.consumer AND a.`partition` = c.`partition`
