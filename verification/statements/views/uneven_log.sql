-- The rows of the log in uneven words (`uneven_words`); in a small run, none.
SELECT g.lane, g.`partition`, g.`offset`, g.producer_id, g.seq
FROM log g
LEFT SEMI JOIN uneven_words u ON u.lane = g.lane AND u.`partition` = g.`partition` AND u.word = g.`offset` DIV 32
