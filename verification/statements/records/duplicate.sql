-- One identity at two or more positions of the log. Where records are removed, and nothing that is committed can get
-- lost, a read shows a first position that is gone, and so does the acknowledgement to an idempotent producer.
-- unit: identities
-- row: the last position; the cause names the first
SELECT
  lane, producer_id, seq, last_stored AS place,
  'first at partition ' || first.`partition` || ', offset ' || first.`offset` AS cause
FROM (
  SELECT
    *, LEAST(
      first_stored, CASE WHEN cleaned * lossless = 1 THEN first_read END,
      CASE WHEN cleaned * lossless * idempotent = 1 AND acknowledged THEN STRUCT(`partition`, `offset`) END
    ) AS first
  FROM records JOIN lanes USING (lane)
) q
WHERE first <> last_stored
