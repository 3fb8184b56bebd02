"""What pods ask for: worked examples of the resource model, and requests that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model.clusters import pod_object

from kai_jax.model.amounts import RequestError, node_amounts
from kai_jax.model.pod_requirements import requirement_of
from kai_jax.model.ports import host_ports
from kai_jax.model.requests import RequestTable
from kai_jax.model.resources import Kind, hundredths, mig_size

MEBIBYTE = 2**20


def container(restart: str = "", **requests: str) -> dict:
    return {"name": "c", "restartPolicy": restart, "resources": {"requests": _named(requests)}}


def _named(requests: dict[str, str]) -> dict[str, str]:
    return {"nvidia.com/gpu" if name == "gpu" else name: amount for name, amount in requests.items()}


@pytest.mark.parametrize(("ordinary_first", "cpu"), [(False, 2150), (True, 2050)])
def test_the_peak_of_starting_counts_the_sidecars_before_it(ordinary_first: bool, cpu: int) -> None:
    sidecar = container("Always", cpu="100m", memory="64Mi")
    ordinary = container(cpu="2", memory="256Mi")
    pod = pod_object(
        containers=[container(cpu="500m", memory="1Gi", gpu="1"), container(cpu="250m", memory="512Mi")],
        initContainers=[ordinary, sidecar] if ordinary_first else [sidecar, ordinary],
        overhead={"cpu": "50m"},
    )
    requirement = requirement_of(pod)
    assert dict(requirement.amounts) == {"cpu": cpu, "memory": 1600 * MEBIBYTE}
    assert (requirement.kind, requirement.requested_gpu, requirement.device_kind) == (Kind.REGULAR, 1, "whole")


def test_quantities_are_summed_before_they_are_rounded() -> None:
    pod = pod_object(containers=[container(memory="500m"), container(memory="500m")])
    assert dict(requirement_of(pod).amounts) == {"memory": 1}


def test_units_of_named_resources() -> None:
    requests = {
        "rdma/hca": "2",
        "hugepages-2Mi": "4Mi",
        "ephemeral-storage": "1Ki",
        "nvidia.com/mig-3g.20gb": "1",
        "pods": "5",
        "bare": "7",
    }
    requirement = requirement_of(pod_object(requests=requests))
    assert dict(requirement.amounts) == {
        "rdma/hca": 2000,
        "hugepages-2Mi": 4 * MEBIBYTE * 1000,
        "ephemeral-storage": 1024,
        "nvidia.com/mig-3g.20gb": 1,
    }
    assert (requirement.kind, requirement.requested_gpu, requirement.accepted_gpu) == (Kind.MIG, 0, 3)


@pytest.mark.parametrize(
    ("annotations", "kind", "devices", "gpus"),
    [
        ({"gpu-fraction": "0.5"}, Kind.FRACTION, 1, 0.5),
        ({"gpu-fraction": "0.333", "gpu-fraction-num-devices": "3"}, Kind.FRACTION, 3, 0.99),
        ({"gpu-fraction": "0.004"}, Kind.FRACTION, 1, 0),
        ({"gpu-fraction": "1"}, Kind.FRACTION, 1, 1),
        ({"gpu-memory": "8000", "gpu-fraction-num-devices": "2"}, Kind.MEMORY, 2, 0),
        ({"gpu-memory": "8000", "gpu-fraction": "0.25"}, Kind.FRACTION, 1, 0.25),
        ({"gpu-fraction-num-devices": "2"}, Kind.REGULAR, 1, 1),
    ],
)
def test_annotations_replace_the_devices_of_containers(annotations, kind, devices, gpus) -> None:
    requirement = requirement_of(pod_object(annotations=annotations))
    assert (requirement.kind, requirement.devices, requirement.requested_gpu) == (kind, devices, gpus)
    assert requirement.node_gpu == (gpus if kind is Kind.REGULAR else 0)


def test_memory_requests_are_measured_by_the_device_at_hand() -> None:
    requirement = requirement_of(pod_object(annotations={"gpu-memory": "10000"}))
    assert requirement.demand_gpu(40900) == 10000 / 40900  # not rounded
    assert requirement.demand_gpu(None) == 0
    assert requirement.accepted_on(81500) == requirement.portion_on(81500) == 0.13
    assert requirement.memory_on(81500) == 10000


def test_fractions_of_device_memory_are_cut() -> None:
    assert [requirement_of(pod_object(annotations={"gpu-fraction": f})).memory_on(100) for f in ("0.29", "0.57")] == [
        28,
        56,
    ]
    assert [hundredths(350, memory) for memory in (600, 400, 2000)] == [0.59, 0.88, 0.18]


def test_a_profile_by_annotation_is_counted_and_never_schedulable() -> None:
    requirement = requirement_of(pod_object(annotations={"nvidia.com/mig-1g.10gb": "2"}))
    assert (requirement.device_kind, requirement.mig_gpu, requirement.requested_gpu) == ("legacy-mig", 2, 0)


@pytest.mark.parametrize(
    ("wire", "field"),
    [
        ({"requests": {"cpu": "-1"}}, "spec.containers[main].resources.requests[cpu]"),
        ({"requests": {"cpu": "lots"}}, "spec.containers[main].resources.requests[cpu]"),
        ({"requests": {"memory": "100Ei"}}, "memory"),
        ({"requests": {"nvidia.com/gpu": "1e30"}}, "nvidia.com/gpu"),
        ({"overhead": {"cpu": "-5m"}}, "spec.overhead[cpu]"),
        ({"annotations": {"gpu-fraction": "NaN"}}, "metadata.annotations[gpu-fraction]"),
        ({"annotations": {"gpu-fraction": "1.5"}}, "metadata.annotations[gpu-fraction]"),
        ({"annotations": {"gpu-fraction": "0"}}, "metadata.annotations[gpu-fraction]"),
        ({"annotations": {"gpu-memory": "much"}}, "metadata.annotations[gpu-memory]"),
        (
            {"annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}},
            "metadata.annotations[gpu-fraction-num-devices]",
        ),
    ],
)
def test_bad_amounts_are_refused_by_field(wire: dict, field: str) -> None:
    with pytest.raises(RequestError) as error:
        requirement_of(pod_object(**wire))
    assert field in str(error.value)


def test_b107_huge_requests_neither_wrap_nor_vanish() -> None:
    half = str(2**62) + "m"
    assert dict(requirement_of(pod_object(requests={"cpu": half})).amounts) == {"cpu": 2**62}
    with pytest.raises(RequestError):
        requirement_of(pod_object(containers=[container(cpu=half), container(cpu=half)]))


def test_bad_amounts_of_nodes_are_named_and_count_nothing() -> None:
    amounts, errors = node_amounts({"cpu": "4", "memory": "-1", "nvidia.com/gpu": "x", "amd.com/gpu": "2", "pods": "9"})
    assert amounts == {"cpu": 4000, "gpu": 2, "pods": 9}
    assert sorted(errors) == ["status.allocatable[memory]", "status.allocatable[nvidia.com/gpu]"]


def test_profile_names_that_do_not_parse_count_nothing() -> None:
    assert [mig_size(f"nvidia.com/mig-{name}") for name in ("3g.20gb", "1g.5gb.me", "strange")] == [3, 0, 0]


def test_pods_with_equal_requests_are_one_class() -> None:
    table = RequestTable()
    same = [pod_object("a"), pod_object("b"), pod_object("c", requests={"nvidia.com/gpu": "1", "cpu": "1000m"})]
    other = pod_object("d", group="", annotations={"gpu-fraction": "0.5"})  # its only annotation
    assert len({table.of(pod) for pod in same}) == 1
    assert table.of(other) != table.of(same[0])


def test_a_refusal_names_the_containers_of_its_own_pod() -> None:
    table = RequestTable()
    for name in ("first", "second"):
        pod = pod_object(containers=[{"name": name, "resources": {"requests": {"cpu": "-1"}}}])
        with pytest.raises(RequestError, match=rf"spec\.containers\[{name}\]"):
            table.of(pod)


quantities = st.sampled_from(["0", "1", "2", "500m", "1Gi", "1.5"])
request_maps = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "rdma/hca"]), quantities)
ports = st.lists(st.fixed_dictionaries({"hostPort": st.sampled_from([0, 80, 81])}), max_size=1)
containers = st.fixed_dictionaries(
    {"resources": st.fixed_dictionaries({"requests": request_maps}), "ports": ports},
    optional={"restartPolicy": st.just("Always")},
)
pods = st.builds(
    lambda fraction, main, starting: pod_object(annotations=fraction, containers=main, initContainers=starting),
    st.sampled_from([{}, {"gpu-fraction": "0.5"}]),
    st.lists(containers, min_size=1, max_size=2),
    st.lists(containers, max_size=2),
)


@given(st.lists(st.tuples(pods, st.integers(0, 1)), max_size=5))
def test_the_class_of_a_pod_has_its_requirement_and_ports(drawn: list) -> None:
    table = RequestTable()
    for pod, claimed in drawn:
        assert table.classes[table.of(pod, claimed)] == (requirement_of(pod, claimed), host_ports(pod))
