-- acknowledged without a time, beside others that have one
-- of: produced
SELECT lane, SUM(untimed) AS n
FROM sends_by_transaction
GROUP BY lane
HAVING SUM(untimed) > 0 AND SUM(timed) > 0
