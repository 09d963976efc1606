-- The transactions whose end their client awaited for a second or more, or asked for in vain.
--
-- tables: transactions
SELECT lane, transactional_id, begin_ns, end_ns
FROM transactions
WHERE CASE WHEN end_ns IS NULL THEN error IS NOT NULL ELSE end_ns - begin_ns >= 1000000000 END
