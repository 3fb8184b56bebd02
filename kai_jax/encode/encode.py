"""From the cluster to tensors: numpy leaves, padded to a bucket, in the dtypes of `kai_jax.tensors`."""

from dataclasses import dataclass

import numpy as np

from kai_jax.encode.buckets import Bucket
from kai_jax.encode.layout import Layout, choose_layout_bucket, lay_out
from kai_jax.encode.snapshot import encode_snapshot
from kai_jax.encode.state import encode_state
from kai_jax.model.cluster import Cluster
from kai_jax.tensors import Policy, Snapshot, State

SCORE_TERMS = ("nodeavailability", "gpusharingorder", "resourcetype", "nominatednode", "nodeplacement", "topology")
DEVICE_TERMS = ("gpupack", "gpuspread")


@dataclass(frozen=True)
class Encoded:
    """A cluster as tensors, and what decoding needs to name their entries again."""

    cluster: Cluster
    layout: Layout
    snapshot: Snapshot
    state: State
    policy: Policy
    k_value: np.float64


def encode(cluster: Cluster, devices: int = 0) -> Encoded:
    """Tensors of a cluster; `devices` asks for more slots for shared devices than the cluster seems to need."""
    layout = lay_out(cluster)
    bucket = choose_layout_bucket(cluster, layout, devices)
    return Encoded(
        cluster=cluster,
        layout=layout,
        snapshot=encode_snapshot(cluster, layout, bucket),
        state=encode_state(cluster, layout, bucket.sizes),
        policy=_policy(cluster, bucket),
        k_value=np.float64(cluster.config.k_value),
    )


def _policy(cluster: Cluster, bucket: Bucket) -> Policy:
    names = [plugin.name for plugin in cluster.config.plugins]
    return Policy(
        score_terms=tuple(name for name in names if name in SCORE_TERMS),
        device_terms=tuple(name for name in names if name in DEVICE_TERMS),
        subgroup_order="subgrouporder" in names,
        capacity="proportion" in names,
        features=bucket.features,
        bounds=bucket.bounds,
    )
