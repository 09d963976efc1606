-- The reads of records whose identities are in doubt (`suspects`); in a small run, all.
--
-- keep: yes
SELECT c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq, c.poll_ns
FROM consumed c
LEFT SEMI JOIN suspects s ON s.lane = c.lane AND s.producer_id = c.producer_id AND s.seq = c.seq
