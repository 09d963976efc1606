import pytest

from kafka_chaos.faults.target import Target, TargetError, VacantRoleError
from tests.faults.fakes import FakeCluster, FakeNode


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("leader(orders)", ["broker-2"]), ("leader(orders/1)", ["broker-1"]),
        ("group-coordinator(orders)", ["broker-1"]), ("transaction-coordinator(orders)", ["broker-3"]),
        ("share-coordinator(orders)", ["broker-2"]), ("controller", ["broker-3"]), ("broker:2", ["broker-2"]),
        ("brokers:3,1", ["broker-3", "broker-1"]), ("zookeeper", ["zookeeper-1"]),
        ("zookeeper:1", ["zookeeper-1"]), ("all", ["broker-1", "broker-2", "broker-3"]),
    ],
)  # fmt: skip
def test_a_role_is_resolved_to_who_holds_it(text: str, expected: list[str]) -> None:
    coordinators = {("group", "orders"): 1, ("transaction", "orders"): 3, ("share", "orders"): 2}
    cluster = FakeCluster(leaders={("orders", 0): 2, ("orders", 1): 1}, coordinators=coordinators)
    assert [node.name for node in Target.parse(text).resolve(cluster, seed=0)] == expected


@pytest.mark.parametrize(("text", "size"), [("random", 1), ("minority", 1), ("majority", 2), ("follower(orders)", 1)])
def test_chosen_targets_depend_on_the_seed_alone(text: str, size: int) -> None:
    cluster = FakeCluster(leaders={("orders", 0): 2})
    target = Target.parse(text)
    chosen = {seed: [node.name for node in target.resolve(cluster, seed)] for seed in range(30)}
    assert chosen == {seed: [node.name for node in target.resolve(cluster, seed)] for seed in range(30)}
    assert {len(names) for names in chosen.values()} == {size}
    assert len({tuple(names) for names in chosen.values()}) > 1
    if text.startswith("follower"):
        assert all("broker-2" not in names for names in chosen.values())


@pytest.mark.parametrize("text", ["leader(orders)", "follower(orders)", "controller", "group-coordinator(orders)"])
def test_a_role_that_nobody_holds_is_an_error(text: str) -> None:
    with pytest.raises(TargetError, match="nobody holds this role"):
        Target.parse(text).resolve(FakeCluster(controller_id=None), seed=0)


def test_a_partition_whose_replicas_nobody_names_is_asked_for_again_and_one_without_followers_is_not() -> None:
    follower, cluster = Target.parse("follower(orders)"), FakeCluster(leaders={("orders", 0): 1})
    cluster.replicas = lambda lane, partition: ()  # type: ignore[method-assign]
    with pytest.raises(VacantRoleError):
        follower.resolve(cluster, seed=0)
    cluster.replicas = lambda lane, partition: (1,)  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="the partition has no followers") as refused:
        follower.resolve(cluster, seed=0)
    assert not isinstance(refused.value, VacantRoleError)


@pytest.mark.parametrize(
    "text",
    ["", "leader", "leader()", "broker", "broker:x", "leader(a/b)", "Random", "all,all", "group-coordinator(a/1)"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(TargetError, match="is not a target: expected leader"):
        Target.parse(text)


ZOOKEEPER = {"zookeepers": 1, "controllers": 0}


def kraft(controllers: int) -> dict[str, int]:
    return {"zookeepers": 0, "controllers": controllers}


@pytest.mark.parametrize(
    ("text", "servers", "message"),
    [
        ("leader(nine)", ZOOKEEPER, "there is no lane nine; the lanes are one"),
        ("group-coordinator(nine)", ZOOKEEPER, "there is no lane nine; the lanes are one"),
        ("broker:4", ZOOKEEPER, "the cluster's brokers are numbered 1 to 3"),
        ("broker:0", ZOOKEEPER, "numbered 1 to 3"),
        ("brokers:2,4", ZOOKEEPER, "the cluster's brokers are numbered 1 to 3"),
        ("zookeeper:2", ZOOKEEPER, "the cluster's zookeepers are numbered 1 to 1"),
        ("zookeeper", kraft(0), "a cluster in KRaft mode has no ZooKeeper"),
        ("zookeeper:1", kraft(3), "a cluster in KRaft mode has no ZooKeeper"),
        ("controllers", kraft(0), "no dedicated controllers"),
        ("controllers:majority", kraft(0), "no dedicated controllers"),
        ("controllers:1,4", kraft(3), "the cluster's controllers are numbered 1 to 3"),
        ("controllers:minority", kraft(1), "one controller alone has no minority"),
        ("controller:4", kraft(3), "the cluster's controllers are numbered 1 to 3"),
    ],
)
def test_what_a_cluster_does_not_have_is_refused(text: str, servers: dict[str, int], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target.parse(text).check(brokers=3, lanes=["one"], **servers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("controller", ["controller-2"]), ("controllers", ["controller-1", "controller-2"]),
        ("controller:1", ["controller-1"]), ("controllers:1,2", ["controller-1", "controller-2"]),
    ],
)  # fmt: skip
def test_controllers_that_are_no_brokers_are_targets(text: str, expected: list[str]) -> None:
    nodes = {number: FakeNode(f"controller-{number}", 100 + number) for number in (1, 2)}
    cluster = FakeCluster(zookeepers={}, controllers=nodes, controller_id=102)
    target = Target.parse(text)
    target.check(brokers=3, zookeepers=0, controllers=2, lanes=[])
    assert [node.name for node in target.resolve(cluster, seed=0)] == expected


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("controller", 1), ("controller:2", 1), ("controllers", 3),
        ("controllers:1,3", 2), ("broker:2", 0), ("majority", 0),
    ],
)  # fmt: skip
def test_controllers_that_are_no_brokers_are_counted_apart(text: str, hit: int) -> None:
    assert Target.parse(text).controllers_hit(3) == hit
    assert Target.parse(text).controllers_hit(0) == 0


def test_a_broker_is_named_and_counted_once() -> None:
    assert Target.parse("brokers:1,3").brokers_hit(3) == 2
    for text, named in (("brokers:2,2", "broker"), ("controllers:1,3,1", "controller")):
        with pytest.raises(TargetError, match=f"'{text}' names a {named} twice"):
            Target.parse(text)
