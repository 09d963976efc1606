-- By partition and broker the rows of a replica, its first and its last offset.
SELECT lane, `partition`, broker, SUM(n) AS `rows`, MIN(first) AS first, MAX(last) AS last
FROM epochs
GROUP BY lane, `partition`, broker
