-- The identities in the log or in reads of doubtful words that may have other rows in clean words.
SELECT DISTINCT q.lane, q.producer_id, q.seq
FROM (
  SELECT lane, producer_id, seq FROM doubtful_log
  UNION ALL
  SELECT lane, producer_id, seq FROM doubtful_reads
) q
LEFT ANTI JOIN doubtful_sends s USING (lane, producer_id, seq)
