-- of: transactions; rests: hanging_transaction, zombie_commit, precommitted_read
SELECT
  t.lane, t.producer_id, t.`transaction`,
  t.initialised_ns > t.begin_ns OR t.end_ns < t.begin_ns OR t.commit_ns NOT BETWEEN t.begin_ns AND t.end_ns
    AS `begun before its producer was initialised, or ended before it began, or its commit asked for outside of it`,
  l.is_transactional = 0 AS `of a lane without transactions`, -- rests: none
  t.begin_ns < t.before_ns AS `begun before the one before it of its producer ended`,
  t.first_id < t.last_id AS `one producer under several transactional ids`, -- rests: zombie_commit, of_log
  t.outcome = 'committed' AND t.end_ns IS NULL AS `committed, without a time at which it was`,
  t.outcome = 'committed' AND t.error IS NOT NULL
    AS `committed, with an error`, -- rests: hanging_transaction, zombie_commit, of_log
  t.outcome = 'committed' AND t.initialised_ns IS NULL AND m.producers > 1
    AS `committed, without the time at which its producer was initialised, one of several of its transactional id` -- rests: zombie_commit
FROM (
  SELECT
    *,
    LAG(COALESCE(end_ns, begin_ns)) OVER (PARTITION BY lane, producer_id ORDER BY `transaction`, begin_ns) AS before_ns,
    MIN(transactional_id) OVER (PARTITION BY lane, producer_id) AS first_id,
    MAX(transactional_id) OVER (PARTITION BY lane, producer_id) AS last_id
  FROM transactions
) t
JOIN lanes l USING (lane)
LEFT JOIN (
  SELECT lane, transactional_id, COUNT(DISTINCT producer_id) AS producers FROM transactions GROUP BY lane, transactional_id
) m USING (lane, transactional_id)
