-- By partition and producer its records in replicas/: the first offset, the lowest and the highest producer epoch.
SELECT
  lane, `partition`, producer_id, MIN(`offset`) AS first, MIN(producer_epoch) AS first_epoch,
  MAX(producer_epoch) AS last_epoch
FROM copies
GROUP BY lane, `partition`, producer_id
