"""Host ports: pods conflict exactly when they share a class."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_jax.api.objects import Pod
from kai_jax.model.ports import ANY_ADDRESS, HostPort, PortTable, host_ports


def a_pod(*ports: dict, init: tuple = (), restart: str = "") -> Pod:
    spec = {
        "containers": [{"name": "idle"}, {"ports": list(ports)}],
        "initContainers": [{"ports": list(init), "restartPolicy": restart}],
    }
    return msgspec.convert({"metadata": {"name": "pod"}, "spec": spec}, Pod)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(), ()),
        (a_pod({"containerPort": 80}), ()),
        (a_pod({"containerPort": 80, "hostPort": 8080}), (("TCP", 8080, ANY_ADDRESS),)),
        (a_pod({"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}), (("UDP", 53, "10.0.0.1"),)),
        (a_pod({"hostPort": 2}, {"hostPort": 1}, {"hostPort": 2}), (("TCP", 1, ANY_ADDRESS), ("TCP", 2, ANY_ADDRESS))),
        (a_pod(init=({"hostPort": 9},)), ()),
        (a_pod(init=({"hostPort": 9},), restart="Always"), (("TCP", 9, ANY_ADDRESS),)),
    ],
)
def test_ports_of_a_pod(pod, expected):
    assert host_ports(pod) == expected


def test_only_ports_that_pending_pods_ask_for_have_classes():
    web, other = (HostPort("TCP", 80, ANY_ADDRESS),), (HostPort("TCP", 81, ANY_ADDRESS),)
    table = PortTable(pending=[web, ()], placed=[(0, other), (1, web)], nodes=3)
    assert len(table) == 1
    assert table.taken().tolist() == [[False, True, False]]
    assert table.wanted(other).tolist() == [False]
    assert len(PortTable(pending=[()], placed=[(0, other)], nodes=3)) == 0


PORTS = st.lists(
    st.builds(
        HostPort,
        st.sampled_from(["TCP", "UDP"]),
        st.sampled_from([80, 81]),
        st.sampled_from([ANY_ADDRESS, "10.0.0.1", "10.0.0.2"]),
    ),
    max_size=2,
    unique=True,
).map(tuple)


def conflict(one: tuple[HostPort, ...], other: tuple[HostPort, ...]) -> bool:
    return any(
        (a.protocol, a.port) == (b.protocol, b.port)
        and (a.address == b.address or ANY_ADDRESS in (a.address, b.address))
        for a in one
        for b in other
    )


@given(st.lists(PORTS, max_size=4), st.lists(st.tuples(st.integers(0, 1), PORTS), max_size=4))
def test_pods_conflict_exactly_when_they_share_a_class(pending, placed):
    table = PortTable(pending, placed, nodes=2)
    for ports in pending:
        wanted = table.wanted(ports)
        for other in pending:
            assert (wanted & table.wanted(other)).any() == conflict(ports, other)
        on_node = [any(conflict(ports, held) for at, held in placed if at == node) for node in (0, 1)]
        assert (table.taken() & wanted[:, None]).any(axis=0).tolist() == on_node
    assert table.taken().dtype == np.bool_
