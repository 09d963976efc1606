-- The produced records in doubt (`suspects`); in a small run, all. One that can't be decoded, (-1, -1), counts as never
-- produced.
--
-- keep: yes
SELECT k.*
FROM known k
LEFT SEMI JOIN suspects s ON s.lane = k.lane AND s.producer_id = k.producer_id AND s.seq = k.seq
