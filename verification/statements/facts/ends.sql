-- By lane and partition the last offsets of the log and of reads (`partition_ends`).
SELECT lane, `partition`, log_end, visible_end, read_end, uncommitted_read_end FROM partition_ends
