-- The reads in doubtful words.
SELECT c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq
FROM consumed c
LEFT SEMI JOIN doubtful_words d ON d.lane = c.lane AND d.`partition` = c.`partition` AND d.word = c.`offset` DIV 32
