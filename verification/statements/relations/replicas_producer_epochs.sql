-- a producer epoch that is missing beside others, falls, or differs between brokers
--
-- A missing epoch is below all others.
-- of: replicas; rests: replica_divergence, zombie_commit
WITH changing AS (
  SELECT r.lane, r.`partition`, r.broker, r.producer_id, r.`offset`, COALESCE(r.producer_epoch, -1) AS epoch
  FROM replicas r
  JOIN (
    SELECT lane, `partition`, producer_id
    FROM replicas
    WHERE producer_id >= 0
    GROUP BY lane, `partition`, producer_id
    HAVING MIN(COALESCE(producer_epoch, -1)) < MAX(COALESCE(producer_epoch, -1))
  ) q USING (lane, `partition`, producer_id)
)
SELECT lane, `partition`, `offset`
FROM (
  SELECT *, LAG(epoch) OVER (PARTITION BY lane, `partition`, broker, producer_id ORDER BY `offset`) AS earlier
  FROM changing
) f
WHERE epoch < earlier
UNION ALL
SELECT lane, `partition`, `offset`
FROM changing
GROUP BY lane, `partition`, producer_id, `offset`
HAVING MIN(epoch) < MAX(epoch)
UNION ALL
SELECT lane, `partition`, MIN(`offset`)
FROM replicas
WHERE producer_id >= 0
GROUP BY lane, `partition`
HAVING COUNT(producer_epoch) > 0 AND COUNT(producer_epoch) < COUNT(*)
