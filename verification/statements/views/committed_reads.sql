-- The reads of read_committed consumers.
-- keep: no
SELECT c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq, c.poll_ns, c.reading_producer_id, c.reading_transaction
FROM consumed c
JOIN isolation i USING (lane, consumer)
WHERE i.isolation = 'read_committed'
