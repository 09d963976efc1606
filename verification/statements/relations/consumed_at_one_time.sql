-- several at one time by one consumer
-- of: consumed; rests: nonmonotonic_poll, skipped_poll
SELECT lane, `partition`, MIN(`offset`) AS `offset`
FROM consumed
GROUP BY lane, consumer, `partition`, poll_ns
HAVING COUNT(*) > 1
