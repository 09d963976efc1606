-- By partition and broker the rows of a replica, its first and its last offset.
SELECT lane, `partition`, broker, COUNT(*) AS `rows`, MIN(`offset`) AS first, MAX(`offset`) AS last
FROM replicas
GROUP BY lane, `partition`, broker
