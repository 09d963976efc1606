"""When there is an active controller in KRaft mode, and whether a new one may end sessions of brokers that run.

Sources: KIP-595 (elections, and a leader without a majority), KIP-631 (heartbeats and fencing), KIP-996 (pre-vote),
KAFKA-15489. Without an active controller no leader is elected and no ISR changes, while leaders go on serving.
"""


def has_majority(reached: int, voters: int) -> bool:
    """Whether a controller that reaches this many of the voters, itself included, can be elected and commit."""
    return 2 * reached > voters


def stays_active(reached: int, voters: int, *, resigns: bool) -> bool:
    """Whether an active controller stays active.

    If no majority fetches from it, it commits nothing. Since 3.7 it then `resigns`. Before, it stays active in its own
    eyes, and brokers stay with it (KAFKA-15489).
    """
    return has_majority(reached, voters) or not resigns


def forces_election(campaigned: bool, *, asks_first: bool) -> bool:
    """Whether a controller that comes back makes the others elect again.

    If it has `campaigned` alone, it has raised its epoch above theirs with each attempt, unless controllers first ask
    whether they could win (KIP-996, since 4.0).
    """
    return campaigned and not asks_first


def may_expire_sessions(interrupted: bool, former_was_reachable: bool) -> bool:
    """Whether a controller that takes over may fence brokers that run and reach it.

    It gives each broker a new session, which may end before the broker has found the new controller: after a time
    without an active controller (`interrupted`), or if brokers still sent heartbeats to the former one.
    """
    return interrupted or former_was_reachable
