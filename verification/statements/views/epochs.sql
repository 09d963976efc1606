-- By replica and leader epoch how many rows it has, the first and the last offset.
SELECT lane, `partition`, broker, leader_epoch, SUM(n) AS n, MIN(first) AS first, MAX(last) AS last
FROM replica_words
GROUP BY lane, `partition`, broker, leader_epoch
