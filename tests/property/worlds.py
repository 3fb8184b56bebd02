"""Random small clusters that are sound at the start: nothing that runs is promised twice.

They stay inside the smallest bucket, so that all of them are decided by one program.
"""

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from regression.clusters import GPU, Cluster, below

MEMORY = 80000  # MiB of one device
MIG = "nvidia.com/mig-1g.10gb"
NODES = ("n1", "n2", "n3")
QUEUES = ("a", "b", "c")
SHARED = (  # parts of devices: fraction, or MiB, and of how many devices
    {"fraction": "0.3"}, {"fraction": "0.5"}, {"fraction": "0.75"}, {"device_memory": 40000},
    {"fraction": "0.45", "devices": 2},
)  # fmt: skip


@st.composite
def nodes(draw: st.DrawFn, cluster: Cluster) -> None:
    for name in draw(st.permutations(NODES))[: draw(st.integers(1, len(NODES)))]:
        cpu, pods = draw(st.sampled_from(("4", "16"))), draw(st.sampled_from((4, 20, 20)))
        rack = draw(st.sampled_from(({}, {"rack": "r1", "zone": "z"}, {"rack": "r2", "zone": "z"})))
        if draw(st.integers(0, 5)) == 0:
            more = {MIG: "2"}
            cluster.node(name, cpu=cpu, pods=pods, more=more, **{"nvidia.com/mig.strategy": "mixed"}, **rack)
        else:
            cluster.node(name, draw(st.sampled_from((0, 1, 2, 4))), cpu=cpu, pods=pods, device_memory=MEMORY, **rack)


@st.composite
def queues(draw: st.DrawFn, cluster: Cluster) -> None:
    cluster.queue("top", quota=draw(st.sampled_from((-1, 3))), limit=draw(st.sampled_from((-1, -1, 4))))
    for name in QUEUES:
        quota, limit = draw(st.sampled_from((-1, -1, 0, 1.5))), draw(st.sampled_from((-1, -1, -1, 2)))
        parent = draw(st.sampled_from(("top", "")))
        cluster.queue(name, quota, limit, draw(st.integers(0, 2)), parent=parent, priority=draw(st.integers(99, 101)))


def requests(shared: bool) -> st.SearchStrategy[dict[str, Any]]:
    """What each pod of a job asks for."""
    whole = st.sampled_from(({"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"gpus": 0}, {"requests": {"cpu": "1", MIG: "1"}}))
    return st.one_of(whole, st.sampled_from(SHARED)) if shared else whole


@st.composite
def clusters(draw: st.DrawFn, shared: bool = True, releasing: bool = True, plain: bool = False) -> Cluster:
    """A cluster; `plain` ones have no parts of devices, no topology, no subgroups and nothing that ends."""
    cluster = Cluster()
    draw(nodes(cluster))
    draw(queues(cluster))
    cluster.topology("t", "zone", "rack")
    for index in range(draw(st.integers(0, 6))):
        running(draw, cluster, f"held{index}", shared and not plain, releasing and not plain)
    for index in range(draw(st.integers(1, 6))):
        waiting(draw, cluster, f"wait{index}", shared and not plain, plain)
    return cluster


def running(draw: st.DrawFn, cluster: Cluster, name: str, shared: bool, releasing: bool) -> None:
    """A job of one pod on a node that has room for it, if there is one."""
    request = draw(st.sampled_from(({"gpus": 1}, {"gpus": 1}, {"gpus": 0}, *(SHARED[:2] if shared else ()))))
    deleted = draw(st.sampled_from((None, 10.0))) if releasing else None
    device = draw(st.sampled_from(("g1", "g2"))) if "fraction" in request else None
    queue = draw(st.sampled_from(QUEUES))
    for node in cluster.objects["nodes"]:
        at = node["metadata"]["name"]
        trial = cluster.copy().job(name, queue, on=at, deleted=deleted, device=device, **request)
        if fits(trial, at):
            cluster.objects = trial.objects
            return


def waiting(draw: st.DrawFn, cluster: Cluster, name: str, shared: bool, plain: bool) -> None:
    queue, pods = draw(st.sampled_from(QUEUES)), draw(st.sampled_from((1, 1, 2, 3)))
    request, preemptible = draw(requests(shared)), draw(st.sampled_from((True, True, False)))
    constraints = [below(required=a, preferred=b) for a, b in (("zone", "rack"), ("rack", ""), ("", "rack"))]
    more = {} if plain else draw(st.sampled_from(({}, {}, {}, *constraints)))
    if plain or draw(st.integers(0, 2)):
        minimum = draw(st.integers(0, pods))
        cluster.job(name, queue, pods, minimum=minimum, preemptible=preemptible, group=more, **{"gpus": 0, **request})
        return
    subgroups = [{"name": part, "minMember": draw(st.integers(0, 2))} for part in ("x", "y")]
    cluster.group(name, queue, preemptible=preemptible, subGroups=subgroups, **more)
    for index in range(pods):
        cluster.pod(f"{name}-{index}", name, subgroup="xy"[index % 2], **request)


def fits(cluster: Cluster, node: str) -> bool:
    """Whether the pods that run there fit on a node, ending ones included."""
    held = [pod for pod in cluster.objects["pods"] if pod["spec"]["nodeName"] == node]
    devices: dict[str, list[str]] = {}
    for pod in held:
        group = pod["metadata"]["labels"].get("runai-gpu-group")
        if group is not None:
            devices.setdefault(group, []).append(pod["metadata"]["name"])
    return not overcommitted(cluster, node, held, list(devices.values()))


def overcommitted(cluster: Cluster, node: str, pods: list[dict], devices: list[list[str]]) -> list[str]:
    """What a node promises more of than it has, given its pods and the pods of each of its shared devices."""
    (wire,) = [item for item in cluster.objects["nodes"] if item["metadata"]["name"] == node]
    offered = wire["status"]["allocatable"]
    asked: dict[str, int] = {"pods": len(pods), GPU: len(devices)}
    for pod in pods:
        for name, amount in pod["spec"]["containers"][0]["resources"]["requests"].items():
            asked[name] = asked.get(name, 0) + _units(amount)
    portions = {pod["metadata"]["name"]: portion(pod) for pod in pods}
    found = [name for name, amount in asked.items() if amount > _units(offered.get(name, "0"))]
    return found + [f"device of {names}" for names in devices if sum(portions[name] for name in names) > 1]


def portion(pod: dict) -> Fraction:
    """The part that a pod takes of each of its shared devices."""
    annotations = pod["metadata"]["annotations"]
    if "gpu-memory" in annotations:
        return Fraction(int(annotations["gpu-memory"]), MEMORY)
    return Fraction(annotations.get("gpu-fraction", "0"))


def _units(amount: str) -> int:
    return int(amount.removesuffix("Gi"))
