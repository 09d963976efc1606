-- The rows of the log whose identities are not in doubt (`suspects`); in a small run, none.
SELECT g.lane, g.`partition`, g.`offset`, g.producer_id, g.seq
FROM log g
LEFT ANTI JOIN suspects s ON s.lane = g.lane AND s.producer_id = g.producer_id AND s.seq = g.seq
