-- By partition and producer the markers of its transactions in replicas/: how many, each broker's copy counted, and the
-- first offset.
--
-- keep: yes
SELECT lane, `partition`, producer_id, COUNT(*) AS n, MIN(`offset`) AS first
FROM replicas
WHERE kind IN ('commit', 'abort')
GROUP BY lane, `partition`, producer_id
