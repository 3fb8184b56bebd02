"""Request classes K: pods with equal requirements and host ports."""

from kai_jax.api.objects import Pod
from kai_jax.model.pod_requirements import request_key, requirement_of
from kai_jax.model.ports import HostPort, host_ports
from kai_jax.model.resources import NOTHING, Requirement

RequestClass = tuple[Requirement, tuple[HostPort, ...]]


class RequestTable:
    """Classes in the order met; class 0 is that of refused pods and of padding, it asks not even for a pod slot."""

    def __init__(self) -> None:
        self.classes: list[RequestClass] = [(NOTHING, ())]
        self._index: dict[RequestClass, int] = {}
        self._memo: dict[tuple[object, ...], int] = {}

    def of(self, pod: Pod, claimed: int = 0) -> int:
        """Class of a pod that claims so many devices. Raises RequestError for a request that cannot be scheduled."""
        key, ports = request_key(pod), host_ports(pod)
        if ports or claimed:
            key += ("ports", ports, claimed)
        found = self._memo.get(key)
        if found is None:
            request = (requirement_of(pod, claimed), ports)
            found = self._memo[key] = self._index.setdefault(request, len(self.classes))
            if found == len(self.classes):
                self.classes.append(request)
        return found

    def requirement(self, index: int) -> Requirement:
        return self.classes[index][0]
