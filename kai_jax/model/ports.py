"""Host ports as exclusive classes: pods conflict on a node exactly when they share a class (spec 04 §1.2, row 6)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kai_jax.api.objects import Pod

ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of the host that a container asks for; ANY_ADDRESS takes it on all addresses."""

    protocol: str
    port: int
    address: str


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The distinct host ports of a pod's containers and sidecars, sorted: a key, empty for most pods."""
    spec = pod.spec
    asking = [container.ports for container in spec.containers if container.ports]
    asking += [c.ports for c in spec.init_containers if c.ports and c.restart_policy == "Always"]
    if not asking:
        return ()
    return tuple(
        sorted(
            {
                HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
                for ports in asking
                for port in ports
                if port.host_port > 0
            }
        )
    )


class PortTable:
    """Classes X, one per protocol, port and address seen, for the ports that pending pods ask for.

    A pod that asks for one address holds that class; a pod that asks for all addresses holds every class of the
    protocol and port, among them the one of ANY_ADDRESS, which such pods share even where no address was named.
    """

    def __init__(self, pending: Iterable[tuple[HostPort, ...]], placed: Iterable[tuple[int, tuple[HostPort, ...]]],
                 nodes: int) -> None:  # fmt: skip
        """`pending`: ports of each pending pod; `placed`: node index and ports of each pod on a node."""
        asked = {port for ports in pending for port in ports}
        contested = {(port.protocol, port.port) for port in asked}
        held = [(node, port) for node, ports in placed for port in ports if (port.protocol, port.port) in contested]
        seen = asked | {port for _, port in held} | {HostPort(*pair, ANY_ADDRESS) for pair in contested}
        self._members: dict[HostPort, list[int]] = {port: [] for port in sorted(seen)}
        for index, port in enumerate(self._members):
            self._members[port].append(index)
            if port.address != ANY_ADDRESS:
                self._members[port._replace(address=ANY_ADDRESS)].append(index)
        self._taken = np.zeros((len(seen), nodes), dtype=bool)
        for node, port in held:
            self._taken[self._members[port], node] = True

    def __len__(self) -> int:
        """X, the number of classes."""
        return len(self._members)

    def wanted(self, ports: tuple[HostPort, ...]) -> np.ndarray:
        """bool[X] classes that a pod with these ports holds; ports that no pending pod asks for have none."""
        wanted = np.zeros(len(self), dtype=bool)
        for port in ports:
            wanted[self._members.get(port, [])] = True
        return wanted

    def taken(self) -> np.ndarray:
        """bool[X,N] classes held on each node by the pods placed there."""
        return self._taken
