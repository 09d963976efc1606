-- The records in the log (`written`) of transactions that have one in a doubtful word. Of all others, read_committed consumers
-- read every committed record that they went on past.
SELECT w.*
FROM written w
LEFT SEMI JOIN (
  SELECT f.lane, f.producer_id, f.`transaction`
  FROM written f
  LEFT SEMI JOIN doubtful_words d ON d.lane = f.lane AND d.`partition` = f.`partition` AND d.word = f.`offset` DIV 32
) d ON d.lane = w.lane AND d.producer_id = w.producer_id AND d.`transaction` = w.`transaction`
