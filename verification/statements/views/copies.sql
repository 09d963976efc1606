-- The records in replicas/ that are no markers.
--
-- tables: replicas
SELECT * FROM replicas WHERE kind IS NULL OR kind NOT IN ('commit', 'abort')
