-- Its commit was acknowledged, or records of it are committed, although its commit was asked for, or a record of it was
-- sent, after a later incarnation was initialised.
--
-- An incarnation that is initialised fences those before it: the coordinator refuses what they send and ask for afterwards.
-- A transaction without records never reaches the coordinator.
-- unit: transactions of the earlier incarnation
-- row: its first record
WITH fenced AS (
  SELECT
    *, MIN(began_ns) OVER (
      PARTITION BY lane, transactional_id ORDER BY began_ns RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) AS fenced_ns
  FROM (
    SELECT lane, transactional_id, producer_id, MIN(COALESCE(initialised_ns, begin_ns)) AS began_ns
    FROM transactions
    GROUP BY lane, transactional_id, producer_id
  ) q
)
SELECT
  c.lane, m.`partition`, m.`offset`, c.producer_id, m.seq,
  'transaction ' || c.`transaction` || ' went on after a later incarnation was initialised' AS cause
FROM transaction_summaries c
JOIN fenced f USING (lane, transactional_id, producer_id)
JOIN transaction_records m ON m.lane = c.lane AND m.producer_id = c.producer_id AND m.seq = c.first_sent
WHERE (c.outcome = 'committed' OR c.committed > 0) AND c.sent > 0 AND GREATEST(c.sent_ns, c.asked_ns) > f.fenced_ns
