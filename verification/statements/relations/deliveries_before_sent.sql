-- given to a member before the record was sent
-- of: deliveries
SELECT d.lane, d.`partition`, d.`offset`
FROM deliveries d
JOIN produced p ON p.lane = d.lane AND p.producer_id = d.producer_id AND p.seq = d.seq
WHERE d.delivered_ns < p.invoke_ns
