-- The rows of produced/ in doubt: acknowledged in a doubtful word, or placed neither by an acknowledgement nor by a clean block
-- (`doubtful_blocks`). No record of theirs is in a word that is not doubtful.
SELECT s.*
FROM sends s
JOIN lanes l ON l.lane = s.lane
LEFT JOIN doubtful_blocks b ON b.lane = s.lane AND b.producer_id = s.producer_id AND b.block = s.seq DIV 32
LEFT JOIN doubtful_words d ON d.lane = s.lane AND d.`partition` = s.`partition` AND d.word = s.`offset` DIV 32
WHERE CASE WHEN s.acknowledged THEN d.word IS NOT NULL ELSE l.unplaced = 0 OR b.block IS NOT NULL END
