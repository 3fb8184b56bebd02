import json
from pathlib import Path

import pytest

from kai_jax.api.documents import Document, DocumentError, read

NODE = """
apiVersion: v1
kind: Node
metadata: {name: gpu-0, labels: {zone: a}}
status: {capacity: {cpu: "32", nvidia.com/gpu: 8}}
"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default, creationTimestamp: 2024-01-02T03:04:05Z}
spec: {resources: {gpu: {quota: 8, overQuotaWeight: 1, limit: -1}}}
"""
GANG = """
apiVersion: scheduling.kai-scheduler.io/v1alpha1
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 2, queue: default}
---
apiVersion: v1
kind: Pod
metadata: {name: worker-0, labels: {scheduling.kai-scheduler.io/pod-group: gang}}
spec:
  initContainers: [{name: fetch, resources: {limits: {cpu: 1}}}]
  containers: [{name: main, resources: {requests: {cpu: 500m}, limits: {cpu: "2", nvidia.com/gpu: 1}}}]
"""


def _read(folder: Path, content: str, name: str = "a.yaml") -> Document:
    (folder / name).write_text(content)
    return read(folder / name)


def test_objects_are_read_as_the_api_server_creates_them(tmp_path: Path) -> None:
    document = _read(tmp_path, f"{NODE}---{QUEUE}---{GANG}")

    assert document.warnings == ()
    (pod,) = document.objects.pods
    assert (pod.metadata.namespace, pod.metadata.uid, pod.metadata.creation_timestamp) == ("default", "", None)
    assert pod.status.phase == "Pending"
    assert pod.spec.scheduler_name == "kai-scheduler"
    assert pod.metadata.annotations["pod-group-name"] == "gang"
    assert pod.spec.containers[0].resources.requests == {"cpu": "500m", "nvidia.com/gpu": 1}
    assert pod.spec.init_containers[0].resources.requests == {"cpu": 1}
    (group,) = document.objects.pod_groups
    assert (group.metadata.namespace, group.spec.min_member, group.spec.queue) == ("default", 2, "default")
    (node,) = document.objects.nodes
    assert node.metadata.namespace == ""
    assert node.status.allocatable == {"cpu": "32", "nvidia.com/gpu": 8}
    (queue,) = document.objects.queues
    assert queue.metadata.creation_timestamp == "2024-01-02T03:04:05Z"
    assert queue.spec.resources.gpu.quota == 8.0
    assert queue.spec.resources.memory.limit == 0.0


def test_a_snapshot_document_is_not_completed_from_limits(tmp_path: Path) -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}]}}
    document = _read(tmp_path, json.dumps({"rawObjects": {"pods": [pod]}}), "a.json")
    assert document.objects.pods[0].spec.containers[0].resources.requests == {}
    assert document.objects.pods[0].status.phase == ""


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, node in {"b.yml": "n2", "a.yaml": "n1", "deep/c.json": "n3"}.items():
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
        (tmp_path / name).write_text(json.dumps(manifest))  # JSON is YAML
    (tmp_path / "README.md").write_text("no manifest")

    document = read(tmp_path)

    assert [node.metadata.name for node in document.objects.nodes] == ["n1", "n2", "n3"]
    assert document.warnings == ()


def test_lists_are_taken_apart(tmp_path: Path) -> None:
    mixed = "{kind: List, apiVersion: v1, items: [{kind: Node, apiVersion: v1, metadata: {name: a}}, null]}"
    of_one_kind = "{kind: NodeList, apiVersion: v1, items: [{metadata: {name: b}}, {metadata: {name: c}}]}"

    document = _read(tmp_path, f"{mixed}\n---\n{of_one_kind}")

    assert [node.metadata.name for node in document.objects.nodes] == ["a", "b", "c"]
    assert document.warnings == ("a.yaml[1] (without a kind): 1 object not read",)


def test_what_is_not_read_is_counted_by_kind(tmp_path: Path) -> None:
    job = "{kind: Job, apiVersion: batch/v1, metadata: {name: j}}"
    volcano = "{kind: PodGroup, apiVersion: scheduling.volcano.sh/v1beta1, metadata: {name: p}}"

    document = _read(tmp_path, f"{NODE}\n---\n{job}\n---\n{job}\n---\n{volcano}\n---\nanswer: 42\n")

    assert document.warnings == (
        "Job (batch/v1): 2 objects not read",
        "PodGroup (scheduling.volcano.sh/v1beta1, expected scheduling.run.ai/v2alpha2 or "
        "scheduling.kai-scheduler.io/v1alpha1): 1 object not read",
        "a.yaml[4] (without a kind): 1 object not read",
    )
    assert document.objects.pod_groups == ()


def test_a_malformed_object_is_left_out_alone(tmp_path: Path) -> None:
    bad = "{kind: Node, apiVersion: v1, metadata: {name: bad, labels: {count: 8}}}"
    document = _read(tmp_path, f"{bad}\n---\n{NODE}")

    assert [node.metadata.name for node in document.objects.nodes] == ["gpu-0"]
    assert document.warnings == ("Node bad left out: metadata.labels[...]: expected `str`, got `int`",)


def test_an_unreadable_file_of_a_folder_is_left_out_alone(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "good.yaml").write_text(NODE)

    document = read(tmp_path)

    assert len(document.objects.nodes) == 1
    assert len(document.warnings) == 1
    assert document.warnings[0].startswith("bad.yaml left out: not YAML")


def test_an_object_that_contains_itself_is_left_out_alone(tmp_path: Path) -> None:
    endless = "{kind: Node, apiVersion: v1, metadata: {name: loop}, spec: &x {self: *x}}"
    document = _read(tmp_path, f"{endless}\n---\n{NODE}")
    assert [node.metadata.name for node in document.objects.nodes] == ["gpu-0"]
    assert document.warnings == ("Node loop left out: nested too deeply",)


def test_a_folder_without_objects_says_why(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("{kind: Job, apiVersion: batch/v1, metadata: {name: j}}")
    with pytest.raises(DocumentError, match="no object that scheduling reads.*Job"):
        read(tmp_path)
