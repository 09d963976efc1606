-- Each consumer's isolation level. One with both levels promises what read_committed does.
--
-- keep: yes
SELECT lane, consumer, MIN(isolation) AS isolation FROM assignments GROUP BY lane, consumer
