-- The records of transactions in the final log, with the transaction and its fate (`fates`). `bit`: that of the record's
-- number in its `block` (`sent_blocks`).
SELECT
  f.lane, f.`partition`, f.`offset`, f.producer_id, f.seq, f.fate, b.`transaction`, b.block, f.bit, b.sent & f.bit <> 0 AS sent
FROM (SELECT *, SHIFTLEFT(CAST(1 AS BIGINT), CAST(seq & 31 AS INT)) AS bit FROM fates) f
JOIN sent_blocks b
  ON b.lane = f.lane AND b.producer_id = f.producer_id AND b.block = SHIFTRIGHT(f.seq, 5) AND b.numbers & f.bit <> 0
WHERE b.`transaction` IS NOT NULL
