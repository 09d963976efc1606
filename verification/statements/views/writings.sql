-- By partition and producer its records, and its markers (`is_marker`), in replicas/; `kinds`, `epochs`: how many have one.
SELECT
  lane, `partition`, producer_id, is_marker, COUNT(*) AS n, COUNT(kind) AS kinds, COUNT(producer_epoch) AS epochs,
  MIN(`offset`) AS first, MIN(producer_epoch) AS first_epoch, MAX(producer_epoch) AS last_epoch
FROM (SELECT *, COALESCE(kind IN ('commit', 'abort'), FALSE) AS is_marker FROM replicas) q
GROUP BY lane, `partition`, producer_id, is_marker
