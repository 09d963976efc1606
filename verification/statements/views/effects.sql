-- The commits of each group as they took effect: one in a transaction ends with it, as the output's producer learned.
SELECT
  g.judged, g.`group`, c.lane, c.consumer, c.`partition`, c.`offset`, c.invoke_ns, n.generation,
  CASE WHEN c.`transaction` IS NULL THEN c.complete_ns ELSE t.end_ns END AS complete_ns,
  CASE
    WHEN c.`transaction` IS NULL OR c.outcome = 'fail' THEN c.outcome
    WHEN t.outcome = 'committed' THEN 'ok'
    WHEN t.outcome = 'aborted' THEN 'fail'
    ELSE 'info'
  END AS outcome
FROM commits c
JOIN `groups` g USING (`group`, lane)
LEFT JOIN generations n USING (judged, `group`, consumer, `partition`)
LEFT JOIN transactions t
  ON g.is_loop = 1 AND t.lane = g.judged AND t.producer_id = c.producer_id AND t.`transaction` = c.`transaction`
