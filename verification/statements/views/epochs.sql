-- By replica and leader epoch the first and the last offset of its records.
SELECT lane, `partition`, broker, leader_epoch, MIN(`offset`) AS first, MAX(`offset`) AS last
FROM replicas
GROUP BY lane, `partition`, broker, leader_epoch
