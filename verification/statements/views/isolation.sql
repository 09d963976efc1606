-- Each consumer's isolation level. A consumer that has had both counts as read_committed, which promises more (and is the
-- first of the two by the alphabet).
SELECT lane, consumer, MIN(isolation) AS isolation FROM assignments GROUP BY lane, consumer
