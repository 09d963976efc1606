-- a producer epoch that is missing beside others, falls, or differs between brokers
--
-- A missing epoch is below all others.
-- of: replicas; rests: replica_divergence, zombie_commit
WITH changing AS (
  SELECT r.lane, r.`partition`, r.broker, r.producer_id, r.`offset`, COALESCE(r.producer_epoch, -1) AS epoch
  FROM replicas r
  JOIN (
    SELECT lane, `partition`, producer_id
    FROM (SELECT *, CASE WHEN epochs < n THEN -1 END AS missing FROM writings WHERE producer_id >= 0) w
    GROUP BY lane, `partition`, producer_id
    HAVING MIN(LEAST(first_epoch, missing)) < MAX(GREATEST(last_epoch, missing))
  ) q USING (lane, `partition`, producer_id)
)
SELECT lane, `partition`, `offset`
FROM (
  SELECT *, LAG(epoch) OVER (PARTITION BY lane, `partition`, broker, producer_id ORDER BY `offset`) AS earlier
  FROM changing
) f
WHERE epoch < earlier AND NOT (epoch = 0 AND earlier >= 32766) -- the last epoch of a producer id
UNION ALL
SELECT lane, `partition`, `offset`
FROM changing
GROUP BY lane, `partition`, producer_id, `offset`
HAVING MIN(epoch) < MAX(epoch)
UNION ALL
SELECT lane, `partition`, MIN(first)
FROM writings
WHERE producer_id >= 0
GROUP BY lane, `partition`
HAVING SUM(epochs) > 0 AND SUM(epochs) < SUM(n)
