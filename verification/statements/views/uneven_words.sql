-- The words of the log (`log_words`) with records in doubt (`suspect_log`), of several producers, or out of order.
SELECT lane, `partition`, word FROM log_words WHERE NOT is_in_order AND stored > 0
UNION
SELECT lane, `partition`, `offset` DIV 32 FROM suspect_log
