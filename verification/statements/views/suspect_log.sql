-- The rows of the log whose identities are in doubt (`suspects`); in a small run, all.
--
-- keep: yes
SELECT g.lane, g.`partition`, g.`offset`, g.producer_id, g.seq
FROM log g
LEFT SEMI JOIN suspects s ON s.lane = g.lane AND s.producer_id = g.producer_id AND s.seq = g.seq
