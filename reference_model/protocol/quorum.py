"""When controllers in KRaft mode have an active one, and what a new one may take brokers for.

Sources: KIP-595 (elections, and a leader without a majority), KIP-631 (heartbeats and fencing), KIP-996 (pre-vote),
KAFKA-15489. Without an active controller no leader is elected and no ISR changes, while leaders serve on.
"""


def has_majority(reached: int, voters: int) -> bool:
    """Whether so many controllers, counted with the one that reaches them, elect the active one and commit what it
    writes."""
    return 2 * reached > voters


def stays_active(reached: int, voters: int, *, resigns: bool) -> bool:
    """Whether an active controller stays so. One that no majority fetches from commits nothing, and resigns; before 3.7
    it stays active in its own eyes, and brokers stay with it (KAFKA-15489)."""
    return has_majority(reached, voters) or not resigns


def disturbs(campaigned: bool, *, asks_first: bool) -> bool:
    """Whether a controller that comes back makes the others elect again. One that has `campaigned` alone has raised its
    epoch above theirs with each attempt, unless controllers ask first whether they could win (KIP-996, since 4.0)."""
    return campaigned and not asks_first


def doubts_sessions(interrupted: bool, deposed_while_reached: bool) -> bool:
    """Whether a controller that takes over may find sessions over of brokers that run and reach it.

    It gives each of them a whole new session. That may pass before they have found it: after a time without any active
    controller, or while they sent their heartbeats to the former one, which they still reached.
    """
    return interrupted or deposed_while_reached
