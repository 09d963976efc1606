-- By replica and leader epoch how many rows it has, the first and the last offset.
SELECT lane, `partition`, broker, leader_epoch, COUNT(*) AS n, MIN(`offset`) AS first, MAX(`offset`) AS last
FROM replicas
GROUP BY lane, `partition`, broker, leader_epoch
