-- several at one time by one consumer
-- of: consumed; rests: nonmonotonic_poll, skipped_poll
SELECT lane, `partition`, MIN(previous) AS `offset`
FROM polls
WHERE poll_ns = previous_ns
GROUP BY lane, consumer, `partition`, poll_ns
