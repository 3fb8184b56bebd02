"""What does not change in a cycle.

Axes (padded to buckets; padding is masked or unreachable; an index of -1 means none):

    N nodes, in ascending byte order of names
    R resources: 0 gpu devices, 1 cpu milli, 2 memory bytes, 3 pods, 4+ others by name
    T tasks, grouped by podset, pending first     P podsets      J jobs      M tree nodes (sets and podsets of all jobs)
    Q queues, 0 is the virtual root, siblings contiguous         S job slots (see Jobs.slot)
    K request classes    C constraint classes     G shared-device slots of a node
    X host-port classes  D topology domains (all topologies)     L topology levels + 1 (0 is the root)     O topologies

Vectors with a leading 3 are in the order cpu milli, memory bytes, gpu devices (spec 02 §0); unlimited is -1.
"""

from jax import Array

from kai_jax.tensors.pytree import pytree


@pytree
class Nodes:
    """Node facts. Padded nodes have exists=False and zero resources."""

    exists: Array  # bool[N]
    allocatable: Array  # f64[R,N]
    gpu_memory: Array  # i64[N] MiB of one device (spec 04 §3.1), 100 when unknown
    gpu_count: Array  # i64[N] devices by label, else by allocatable (W of spec 04 §3.2)
    cpu_only: Array  # bool[N] no devices of any kind, not MIG (plugin resourcetype)
    ports_taken: Array  # bool[X,N] a host-port class held by a pod on the node at the start


@pytree
class Requests:
    """Pods with equal request vectors and device needs."""

    vector: Array  # f64[K,R] requested amounts, pods = 1; gpu entry 0 for memory requests, count*portion for fractions
    node_gpu: Array  # f64[K] devices charged to the node's gpu entry: 0 for shared and MIG pods
    shared: Array  # bool[K] asks for a part of a device (fraction or memory)
    cpu_only: Array  # bool[K]
    devices: Array  # i32[K] shared devices asked for (0 when not shared)
    portion: Array  # f64[K] of one device; 0 for memory requests
    memory: Array  # i64[K] MiB of one device for memory requests, else 0
    accepted_gpu: Array  # f64[K] devices that queue usage grows by (MIG: sum of g*n); memory requests: 0, node decides
    order_gpu: Array  # f64[K] devices in queue order and demand: memory requests by the smallest device of the shard
    gate_gpu: Array  # f64[K] devices at the job's capacity gate: memory requests by the largest device of the shard
    ports: Array  # bool[K,X] host-port classes asked for


@pytree
class Constraints:
    """Pods that pass the same filters, those that no placement changes: selectors, taints, volumes, device kind ..."""

    allowed: Array  # bool[C,N]


@pytree
class Tasks:
    """Pods of loaded jobs that belong to an existing podset; inside a podset pending tasks first, in task order."""

    request: Array  # i32[T] -> K
    constraint: Array  # i32[T] -> C
    podset: Array  # i32[T] -> P
    nominated: Array  # i32[T] -> N or -1


@pytree
class Podsets:
    """Leaves of podgroups; the podsets of a job are contiguous, so are the tasks of a podset."""

    job: Array  # i32[P] -> J
    task_start: Array  # i32[P] first task; its pending tasks are task_start .. task_start+pending-1
    task_count: Array  # i32[P]
    pending: Array  # i32[P] pending tasks at the start
    minimum: Array  # i32[P] minAvailable


@pytree
class TreeNodes:
    """Subgroup trees: every job has at least its root set (local index 0) and one podset; parents before children."""

    parent: Array  # i32[M] local index inside the job, -1 for the root
    depth: Array  # i32[M] root 0
    podset: Array  # i32[M] -> P, or -1 for a set
    threshold: Array  # i32[M] set: children required (minSubGroup or all); podset: minAvailable
    name_rank: Array  # i32[M] rank of the name inside the job, bytes ascending
    topology: Array  # i32[M] -> O, -1 no constraint, -2 unknown topology, -3 misconfigured levels
    required: Array  # i32[M] level index (>= 1) or -1
    preferred: Array  # i32[M] level index (>= 1) or -1


@pytree
class Jobs:
    """Podgroups of the shard. A slot is a place in a leaf queue's job order.

    Slots of a leaf are contiguous and sorted by the job order; a job owns one slot per elastic class it can have
    (0 below, 1 exact, 2 above its minimums), because its class is part of its order (spec 02 §5.1).
    """

    queue: Array  # i32[J] -> Q, -1 when its queue is unknown or no leaf
    preemptible: Array  # bool[J]
    podset_start: Array  # i32[J]
    podset_count: Array  # i32[J]
    node_start: Array  # i32[J] -> M
    node_count: Array  # i32[J]
    flat: Array  # bool[J] one podset under the root and no topology constraint
    slot: Array  # i32[J,3] -> S by elastic class, -1 where the class cannot occur
    slot_job: Array  # i32[S] -> J
    slot_filled: Array  # bool[S] the job waits in this slot at the start


@pytree
class Queues:
    """The queue tree; queue 0 is the virtual root above all top queues, queues of no shard are absent."""

    parent: Array  # i32[Q] -> Q, -1 for the virtual root
    level: Array  # i32[Q] virtual root 0, top queues 1
    child_start: Array  # i32[Q] -> Q, first child
    child_count: Array  # i32[Q] 0 for leaves
    slot_start: Array  # i32[Q] -> S, of leaves
    slot_end: Array  # i32[Q]
    quota: Array  # f64[3,Q]
    limit: Array  # f64[3,Q]
    weight: Array  # f64[3,Q]
    priority: Array  # i32[Q]
    created: Array  # i64[Q] seconds
    uid_rank: Array  # i32[Q] rank of the queue name, bytes ascending
    usage: Array  # f64[3,Q] normalised history, 0 without
    request: Array  # f64[3,Q] allocated plus pending demand, ancestors included
    total: Array  # f64[3] cluster total


@pytree
class Topology:
    """Domains of all topologies; a node outside a topology has -1 at all its levels."""

    node_domain: Array  # i32[O,L,N] -> D
    parent: Array  # i32[D] -> D, -1 for roots and padding
    level: Array  # i32[D] root 0; -1 for padding
    topology: Array  # i32[D] -> O
    id_rank: Array  # i32[D] rank of the joined domain id inside its topology and level, bytes ascending


@pytree
class Snapshot:
    """All of the above."""

    nodes: Nodes
    requests: Requests
    constraints: Constraints
    tasks: Tasks
    podsets: Podsets
    tree: TreeNodes
    jobs: Jobs
    queues: Queues
    topology: Topology
    spread_gpu: Array  # bool[] nodeplacement strategy for device pods is spread
    spread_cpu: Array  # bool[] nodeplacement strategy for CPU pods is spread
