-- The records of transactions in the final log, with the transaction and its fate (`fates`).
SELECT f.lane, f.`partition`, f.`offset`, f.producer_id, f.seq, f.fate, m.`transaction`, m.sent
FROM fates f
JOIN transaction_records m USING (lane, producer_id, seq)
