-- The rows of the log in doubtful words.
SELECT g.lane, g.`partition`, g.`offset`, g.producer_id, g.seq
FROM log g
LEFT SEMI JOIN doubtful_words d ON d.lane = g.lane AND d.`partition` = g.`partition` AND d.word = g.`offset` DIV 32
