"""Claims of pods: which nodes can serve them."""

import msgspec
import pytest

from kai_jax.api.objects import (
    CsiDriver,
    CsiStorageCapacity,
    Objects,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from kai_jax.model.selectors import Labelled
from kai_jax.model.volumes import (
    BIND_COMPLETED,
    BIND_CONFLICT,
    NO_SPACE,
    NO_VOLUME,
    NODE_CONFLICT,
    SELECTED_NODE,
    ClaimError,
    VolumeTable,
)

NODES = Labelled(["a", "b", "c"], [{"zone": "a"}, {"zone": "b"}, {}])


def a_claim(name: str, size: str = "1Gi", storage_class: str | None = "wait", **more) -> PersistentVolumeClaim:
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", **more.pop("metadata", {})}
    phase = more.pop("phase", "Pending")
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, **more}
    wire = {
        "metadata": metadata,
        "spec": {**spec, "resources": {"requests": {"storage": size}}},
        "status": {"phase": phase},
    }
    return msgspec.convert(wire, PersistentVolumeClaim)


def a_bound_claim(name: str, volume: str) -> PersistentVolumeClaim:
    annotations = {BIND_COMPLETED: "yes"}
    return a_claim(name, volumeName=volume, metadata={"annotations": annotations}, phase="Bound")


def a_volume(name: str, zone: str | None = None, size: str = "1Gi", **more) -> PersistentVolume:
    phase = more.pop("phase", "Available")
    metadata = {"name": name, **more.pop("metadata", {})}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "wait", "capacity": {"storage": size}, **more}
    if zone is not None:
        requirement = {"key": "zone", "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, PersistentVolume)


def a_class(name: str = "wait", provisioner: str = "csi", mode: str = "WaitForFirstConsumer", zones: tuple = ()):
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}] if zones else []
    wire = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "allowedTopologies": terms,
    }
    return msgspec.convert(wire, StorageClass)


def a_pod(*claims: str, ephemeral: tuple = ()) -> Pod:
    volumes = [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [{"name": name, "ephemeral": {"volumeClaimTemplate": {}}} for name in ephemeral]
    metadata = {"name": "pod", "namespace": "team", "uid": "uid-pod"}
    return msgspec.convert({"metadata": metadata, "spec": {"volumes": volumes}}, Pod)


def a_table(*objects) -> VolumeTable:
    def of(kind: type) -> tuple:
        return tuple(each for each in objects if isinstance(each, kind))

    everything = Objects(
        persistent_volume_claims=of(PersistentVolumeClaim),
        persistent_volumes=of(PersistentVolume),
        storage_classes=of(StorageClass),
        csi_drivers=of(CsiDriver),
        csi_storage_capacities=of(CsiStorageCapacity),
    )
    return VolumeTable(everything, NODES)


def lost(table: VolumeTable, pod: Pod) -> dict[str, str]:
    """Names of the nodes lost to each reason."""
    checks = table.checks(table.needs(pod))
    return {c.reason: "".join(n for n, passes in zip("abc", c.passes, strict=True) if not passes) for c in checks}


# ------------------------------------------------------------------------------------ no node can help


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (a_claim("other"), 'persistentvolumeclaim "data" not found'),
        (a_claim("data", metadata={"namespace": "other"}), 'persistentvolumeclaim "data" not found'),
        (
            a_claim("data", volumeName="pv", phase="Lost"),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
        ),
        (
            a_claim("data", metadata={"deletionTimestamp": "2020-01-01T00:00:00Z"}),
            'persistentvolumeclaim "data" is being deleted',
        ),
        (a_claim("data", storage_class="now"), 'pod has unbound immediate PersistentVolumeClaims: "data"'),
        (a_claim("data", storage_class="unknown"), 'pod has unbound immediate PersistentVolumeClaims: "data"'),
        (a_claim("data", storage_class=None), 'pod has unbound immediate PersistentVolumeClaims: "data"'),
        (a_claim("data", volumeName="pv"), 'pod has unbound immediate PersistentVolumeClaims: "data"'),
        (
            a_claim("data", size="lots"),
            'persistentvolumeclaim "data": requests.storage: '
            "quantity 'lots' is not a number with an optional suffix (500m, 2, 1.5Gi, 1e3)",
        ),
    ],
)
def test_claims_that_no_node_can_serve(claim, text):
    table = a_table(claim, a_class(), a_class("now", mode="Immediate"), a_volume("pv"))
    with pytest.raises(ClaimError) as error:
        table.needs(a_pod("data"))
    assert str(error.value) == text


def test_ephemeral_claims_carry_the_names_of_pod_and_volume_and_belong_to_the_pod():
    owned = {"ownerReferences": [{"kind": "Pod", "name": "pod", "uid": "uid-pod"}]}
    assert lost(a_table(a_claim("pod-scratch", metadata=owned), a_class()), a_pod(ephemeral=("scratch",))) == {}
    with pytest.raises(ClaimError, match='was not created for pod "pod"'):
        a_table(a_claim("pod-scratch"), a_class()).needs(a_pod(ephemeral=("scratch",)))
    with pytest.raises(ClaimError, match='waiting for ephemeral volume .* "pod-scratch"'):
        a_table(a_class()).needs(a_pod(ephemeral=("scratch",)))


def test_volumes_of_other_kinds_need_nothing():
    pod = msgspec.convert({"metadata": {"name": "pod"}, "spec": {"volumes": [{"name": "tmp", "emptyDir": {}}]}}, Pod)
    assert a_table().needs(pod) == ()


# ------------------------------------------------------------------------------------ bound claims


def test_a_bound_claim_holds_the_pod_to_the_nodes_of_its_volume():
    table = a_table(a_bound_claim("data", "pv"), a_volume("pv", zone="b"))
    assert lost(table, a_pod("data")) == {NODE_CONFLICT: "ac"}


def test_a_bound_claim_needs_its_volume():
    assert lost(a_table(a_bound_claim("data", "gone")), a_pod("data")) == {NO_VOLUME: "abc"}


def test_a_volume_without_affinity_is_reached_from_everywhere():
    assert lost(a_table(a_bound_claim("data", "pv"), a_volume("pv")), a_pod("data")) == {}


def test_all_claims_of_a_pod_must_be_served():
    claims = a_bound_claim("x", "pva"), a_bound_claim("y", "pvb")
    table = a_table(*claims, a_volume("pva", zone="a"), a_volume("pvb", zone="b"))
    assert lost(table, a_pod("x", "y")) == {NODE_CONFLICT: "abc"}


# ------------------------------------------------------------------------------------ delayed claims


def test_a_delayed_claim_is_provisioned_where_its_class_allows():
    assert lost(a_table(a_claim("data"), a_class()), a_pod("data")) == {}
    assert lost(a_table(a_claim("data"), a_class(zones=("a", "b"))), a_pod("data")) == {BIND_CONFLICT: "c"}
    assert lost(a_table(a_claim("data"), a_class(provisioner="")), a_pod("data")) == {BIND_CONFLICT: "abc"}


NO_PROVISIONER = a_class(provisioner="kubernetes.io/no-provisioner")


@pytest.mark.parametrize(
    ("volume", "nodes"),
    [
        (a_volume("pv", zone="a"), "a"),
        (a_volume("pv"), "abc"),
        (a_volume("pv", size="2Gi"), "abc"),
        (a_volume("pv", size="1023Mi"), ""),
        (a_volume("pv", phase="Released"), ""),
        (a_volume("pv", claimRef={"name": "other", "namespace": "team"}), ""),
        (a_volume("pv", storageClassName="fast"), ""),
        (a_volume("pv", accessModes=["ReadOnlyMany"]), ""),
        (a_volume("pv", accessModes=["ReadOnlyMany", "ReadWriteOnce"]), "abc"),
        (a_volume("pv", volumeMode="Block"), ""),
        (a_volume("pv", metadata={"deletionTimestamp": "2020-01-01T00:00:00Z"}), ""),
        (a_volume("pv", metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}), ""),
        # reserved for the claim: class and phase do not matter
        (a_volume("pv", zone="b", storageClassName="", claimRef={"name": "data", "namespace": "team"}), "b"),
        (a_volume("pv", claimRef={"name": "data", "namespace": "team", "uid": "uid-data"}, phase="Released"), "abc"),
        (a_volume("pv", claimRef={"name": "data", "namespace": "team", "uid": "uid-older"}), ""),
        (a_volume("pv", size="1Mi", claimRef={"name": "data", "namespace": "team"}), ""),
    ],
)
def test_which_volumes_serve_a_delayed_claim(volume, nodes):
    refused = "".join(sorted(set("abc") - set(nodes)))
    assert lost(a_table(a_claim("data"), NO_PROVISIONER, volume), a_pod("data")) == (
        {BIND_CONFLICT: refused} if refused else {}
    )


def test_a_claim_selects_volumes_by_label():
    claim = a_claim("data", selector={"matchLabels": {"tier": "gold"}})
    gold, other = a_volume("gold", zone="a", metadata={"labels": {"tier": "gold"}}), a_volume("other", zone="b")
    assert lost(a_table(claim, NO_PROVISIONER, gold, other), a_pod("data")) == {BIND_CONFLICT: "bc"}


def test_two_claims_of_a_pod_need_two_volumes():
    claims = a_claim("x"), a_claim("y")
    volumes = a_volume("one", zone="a"), a_volume("two"), a_volume("three", zone="b")
    assert lost(a_table(*claims, NO_PROVISIONER, *volumes), a_pod("x", "y")) == {BIND_CONFLICT: "c"}
    assert lost(a_table(*claims, NO_PROVISIONER, *volumes), a_pod("x")) == {}


def test_the_smaller_claim_chooses_first_and_takes_the_smallest_volume():
    claims = a_claim("big", size="5Gi"), a_claim("small", size="1Gi")
    volumes = a_volume("five", size="5Gi"), a_volume("one", size="1Gi")
    assert lost(a_table(*claims, NO_PROVISIONER, *volumes), a_pod("big", "small")) == {}
    # the small claim takes the volume of 5Gi, the smallest on c, and leaves none for the big one
    volumes = a_volume("five", size="5Gi"), a_volume("one", size="1Gi", zone="a"), a_volume("six", size="6Gi", zone="b")
    assert lost(a_table(*claims, NO_PROVISIONER, *volumes), a_pod("big", "small")) == {BIND_CONFLICT: "c"}


def test_a_claim_left_over_is_provisioned():
    claims = a_claim("x"), a_claim("y")
    assert lost(a_table(*claims, a_class(zones=("a",)), a_volume("one")), a_pod("x", "y")) == {BIND_CONFLICT: "bc"}


def test_a_selected_node_is_the_only_one_and_is_provisioned():
    claim = a_claim("data", metadata={"annotations": {SELECTED_NODE: "b"}})
    assert lost(a_table(claim, a_class(), a_volume("pv", zone="a")), a_pod("data")) == {BIND_CONFLICT: "ac"}
    assert lost(a_table(claim, NO_PROVISIONER, a_volume("pv")), a_pod("data")) == {BIND_CONFLICT: "abc"}


def test_reported_capacities_limit_provisioning():
    def capacity(zone: str, **sizes) -> CsiStorageCapacity:
        topology = {"matchLabels": {"zone": zone}}
        wire = {"metadata": {"name": zone}, "storageClassName": "wait", "nodeTopology": topology, **sizes}
        return msgspec.convert(wire, CsiStorageCapacity)

    driver = msgspec.convert({"metadata": {"name": "csi"}, "spec": {"storageCapacity": True}}, CsiDriver)
    room = capacity("a", capacity="10Gi"), capacity("b", capacity="10Gi", maximumVolumeSize="1Mi")
    assert lost(a_table(a_claim("data"), a_class(), driver, *room), a_pod("data")) == {NO_SPACE: "bc"}
    assert lost(a_table(a_claim("data"), a_class(), *room), a_pod("data")) == {}


# ------------------------------------------------------------------------------------ classes and bad objects


def test_claims_with_equal_needs_are_one_need():
    table = a_table(a_claim("x"), a_claim("y"), a_claim("z", size="1024Mi"), a_claim("w", size="2Gi"), a_class())
    assert table.needs(a_pod("x")) == table.needs(a_pod("y")) == table.needs(a_pod("z")) != table.needs(a_pod("w"))
    assert len({table.needs(a_pod(name)) for name in "xyzw"}) == 2


def test_a_volume_whose_size_cannot_be_read_is_named_and_not_used():
    table = a_table(a_claim("data"), NO_PROVISIONER, a_volume("bad", size="huge"), a_volume("good", zone="a"))
    assert lost(table, a_pod("data")) == {BIND_CONFLICT: "bc"}
    assert [warning.split(":")[:2] for warning in table.warnings] == [
        ["PersistentVolume bad", " spec.capacity.storage"]
    ]
