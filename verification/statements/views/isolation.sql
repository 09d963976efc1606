-- Each consumer's isolation level. One that has had both counts as read_committed (the lower text), which promises more.
SELECT lane, consumer, MIN(isolation) AS isolation FROM assignments GROUP BY lane, consumer
