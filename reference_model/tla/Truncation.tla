---------------------------- MODULE Truncation ----------------------------
(* Logs, and where a new follower truncates its own: protocol/truncation.py, a second time.                          *)
(* A log is a sequence of [record, epoch]; the entry at an offset is the one at that index plus one.                 *)
EXTENDS Integers, Sequences

min(a, b) == IF a < b THEN a ELSE b
max(a, b) == IF a > b THEN a ELSE b
least(numbers) == CHOOSE n \in numbers : \A m \in numbers : n <= m
greatest(numbers) == CHOOSE n \in numbers : \A m \in numbers : n >= m

prefix(log, end) == SubSeq(log, 1, end)
epochs(log) == {log[i].epoch : i \in DOMAIN log}

\* The offset of the first entry of an epoch or of a later one; the log's end if there is none.
start_of(log, epoch) == least({Len(log)} \cup {i - 1 : i \in {j \in DOMAIN log : log[j].epoch >= epoch}})

\* What a broker answers when it is asked where an epoch ends.
end_offset_for(log, epoch) == start_of(log, epoch + 1)

to_high_watermark(log, high_watermark, leader_log) == min(high_watermark, Len(log))

to_end_of_last_epoch(log, high_watermark, leader_log) ==
    IF log = <<>> THEN 0 ELSE min(Len(log), end_offset_for(leader_log, log[Len(log)].epoch))

\* The exchange: the follower asks for the epoch of its last entry below `end`, and from the answer, a smaller epoch,
\* it learns below which end to ask again.
RECURSIVE ask(_, _, _)
ask(log, end, leader_log) ==
    IF end = 0 THEN 0
    ELSE LET asked == log[end].epoch
             leader_end == end_offset_for(leader_log, asked)
             answer == IF leader_end = 0 THEN -1 ELSE leader_log[leader_end].epoch
         IN  IF answer = asked THEN min(end, leader_end)
             ELSE ask(log, min(end, end_offset_for(log, answer)), leader_log)

to_last_common_epoch(log, high_watermark, leader_log) == ask(log, Len(log), leader_log)

---------------------------------------------------------------------------
(* What the exchange is for: it ends where the last epoch that both have ends first. That is so where no log's epochs  *)
(* decrease, as fencing sees to. Without it they do: a follower may fetch from a leader of a later epoch than its own, *)
(* and then lead in an earlier one.                                                                                    *)

where_last_common_epoch_ends(log, leader_log) ==
    LET common == epochs(log) \cap epochs(leader_log)
        last == greatest(common)
    IN  IF common = {} THEN 0 ELSE min(end_offset_for(log, last), end_offset_for(leader_log, last))

ordered_logs ==
    {log \in UNION {[1..length -> [record : {0}, epoch : 0..3]] : length \in 0..3} :
        \A i, j \in DOMAIN log : i < j => log[i].epoch <= log[j].epoch}

exchange_finds_last_common_epoch ==
    \A log, leader_log \in ordered_logs :
        to_last_common_epoch(log, 0, leader_log) = where_last_common_epoch_ends(log, leader_log)
===========================================================================
