-- The records of transactions in the final log, with the transaction and its fate (`fates`).
SELECT f.lane, f.`partition`, f.`offset`, f.producer_id, f.seq, f.fate, m.`transaction`, m.sent
FROM fates f
JOIN transaction_records m ON m.lane = f.lane AND m.producer_id = f.producer_id AND m.seq = f.seq
