-- Its outcome is `committed`, although its commit was asked for, or a record of it was sent, after a later incarnation was
-- initialised, of which a commit succeeded as well.
--
-- An incarnation that is initialised fences those before it: the coordinator refuses what they send and ask for afterwards.
-- Both have acknowledged commits that contain records: an empty transaction never reaches the coordinator.
-- unit: transactions of the earlier incarnation
-- row: its first record
WITH incarnations AS (
  SELECT o.*, b.began_ns
  FROM transaction_summaries o
  JOIN (
    SELECT lane, producer_id, MIN(COALESCE(initialised_ns, begin_ns)) AS began_ns
    FROM transactions
    GROUP BY lane, producer_id
  ) b ON b.lane = o.lane AND b.producer_id = o.producer_id
  WHERE o.outcome = 'committed' AND o.sent > 0
), fenced AS (
  SELECT
    lane, transactional_id, began_ns,
    LEAD(began_ns) OVER (PARTITION BY lane, transactional_id ORDER BY began_ns) AS fenced_ns
  FROM (SELECT DISTINCT lane, transactional_id, began_ns FROM incarnations) q
)
SELECT
  c.lane, m.`partition`, m.`offset`, c.producer_id, m.seq,
  'transaction ' || c.`transaction` || ' went on after a later incarnation was initialised' AS cause
FROM incarnations c
JOIN fenced f USING (lane, transactional_id, began_ns)
JOIN transaction_records m ON m.lane = c.lane AND m.producer_id = c.producer_id AND m.seq = c.first_sent
WHERE GREATEST(c.sent_ns, c.asked_ns) > f.fenced_ns
