import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kai_jax.api.config import Settings
from kai_jax.api.documents import Document, DocumentError, read


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": {"phase": "Pending"}}


def _read_json(folder: Path, content: Any) -> Document:
    file = folder / "case.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return read(file)


def test_only_the_fields_in_use_are_read(tmp_path: Path) -> None:
    pod = _pod(
        "a",
        nodeName="n1",
        dnsPolicy="ClusterFirst",
        containers=[{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", "memory": 5, "x/y": 0.5}}}],
        tolerations=[{"operator": "Exists"}],
    )
    request = {
        "metadata": {"name": "a", "namespace": "team"},
        "spec": {"podName": "a", "receivedGPU": {"count": 2, "portion": "0.50"}, "selectedGPUGroups": ["g"]},
    }

    document = _read_json(
        tmp_path, {"config": {"actions": "allocate"}, "rawObjects": {"pods": [pod], "bindRequests": [request]}}
    )

    assert document.warnings == ()
    assert document.config.actions == ("allocate",)
    (read_pod,) = document.objects.pods
    assert read_pod.spec.node_name == "n1"
    assert dict(read_pod.spec.containers[0].resources.requests) == {"cpu": "1", "memory": 5, "x/y": 0.5}
    assert read_pod.spec.tolerations[0].operator == "Exists"
    assert read_pod.metadata.labels == {}
    assert document.objects.bind_requests[0].spec.received_gpu.portion == "0.50"
    assert document.objects.bind_requests[0].spec.selected_gpu_groups == ("g",)


def test_null_means_absent(tmp_path: Path) -> None:
    pod = {
        "metadata": {"name": "a", "labels": None, "creationTimestamp": None, "ownerReferences": None},
        "spec": {"tolerations": None, "containers": [{"name": "main", "ports": None, "resources": None}, None]},
        "status": None,
    }
    document = _read_json(
        tmp_path, {"config": None, "schedulerParams": None, "rawObjects": {"pods": [pod, _pod("b")], "nodes": None}}
    )

    assert document.warnings == ()
    assert [pod.metadata.name for pod in document.objects.pods] == ["a", "b"]
    assert document.objects.pods[0].spec.tolerations == ()
    assert len(document.objects.pods[0].spec.containers) == 1
    assert document.objects.nodes == ()


def test_a_zip_reads_like_the_document_inside(tmp_path: Path) -> None:
    content = {"schedulerParams": {"schedulerName": "mine"}, "rawObjects": {"pods": [_pod("a")]}}
    for name in ("snapshot.zip", "snapshot.gzip"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("snapshot.json", json.dumps(content))
        assert read(tmp_path / name) == _read_json(tmp_path, content)


def test_a_malformed_object_is_left_out_alone(tmp_path: Path) -> None:
    pods = [
        _pod("first"),
        _pod("bad", tolerations=[{"key": 5}]),
        {"spec": {}},
        {"metadata": {"name": ""}},
        "text",
        _pod("last"),
    ]
    groups = [{"metadata": {"name": "g", "namespace": "team"}, "spec": {"minMember": -1}}]

    document = _read_json(tmp_path, {"rawObjects": {"pods": pods, "podGroups": groups}})

    assert [pod.metadata.name for pod in document.objects.pods] == ["first", "last"]
    assert document.objects.pod_groups == ()
    assert len(document.warnings) == 5
    assert document.warnings[0].startswith("Pod team/bad left out: spec.tolerations[0].key: expected `str`")
    assert document.warnings[1].startswith("Pod pods[2] left out: object missing required field `metadata`")
    assert document.warnings[4].startswith("PodGroup team/g left out: spec.minMember: expected `int` >= 0")


def test_a_number_beyond_a_double_is_left_out_alone(tmp_path: Path) -> None:
    bad = '{"metadata": {"name": "bad"}, "spec": {"overhead": {"cpu": 1e999}}}'
    document = _read_json(tmp_path, f'{{"rawObjects": {{"pods": [{bad}, {json.dumps(_pod("good"))}]}}}}')

    assert [pod.metadata.name for pod in document.objects.pods] == ["good"]
    assert document.warnings == ("Pod bad left out: spec.overhead[...]: number out of range",)


def test_the_first_of_equal_names_is_kept(tmp_path: Path) -> None:
    other_namespace = {"metadata": {"name": "a", "namespace": "other"}}
    document = _read_json(
        tmp_path, {"rawObjects": {"pods": [_pod("a", nodeName="n1"), _pod("a", nodeName="n2"), other_namespace]}}
    )

    assert [(pod.metadata.namespace, pod.spec.node_name) for pod in document.objects.pods] == [
        ("team", "n1"),
        ("other", ""),
    ]
    assert document.warnings == ("Pod team/a left out: there is an earlier one of this name",)


def test_unknown_collections_are_reported_unless_empty(tmp_path: Path) -> None:
    document = _read_json(tmp_path, {"rawObjects": {"widgets": [{}], "gadgets": [], "gizmos": None}})
    assert document.warnings == ("rawObjects.widgets is not read",)


def test_a_pod_may_join_its_group_by_label(tmp_path: Path) -> None:
    label = {"scheduling.kai-scheduler.io/pod-group": "gang"}
    joined = {"metadata": {"name": "a", "namespace": "team", "labels": label}, "spec": {"schedulerName": "default"}}
    params = {"schedulerName": "mine"}

    document = _read_json(tmp_path, {"schedulerParams": params, "rawObjects": {"pods": [joined, _pod("b")]}})

    first, second = document.objects.pods
    assert first.metadata.annotations == {"pod-group-name": "gang"}
    assert first.spec.scheduler_name == "mine"
    assert second.metadata.annotations == {}
    assert second.spec.scheduler_name == ""


def test_settings_override_the_document(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text('{"config": {"actions": "reclaim"}, "rawObjects": {}}')
    assert read(file, Settings(config={"actions": "allocate"})).config.actions == ("allocate",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "", "empty"),
        ("a.json", " \n", "empty"),
        ("a.json", "{", "not JSON"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", "[1, 2]", "expected Kubernetes objects"),
        ("a.json", "{}", "no object that scheduling reads"),
        ("a.json", '{"rawObjects": null}', "no snapshot document: rawObjects"),
        ("a.json", '{"rawObjects": {"pods": {}}}', r"rawObjects\.pods: expected `array"),
        ("a.json", '{"rawObjects": {}, "config": 1}', "config: expected an object"),
        ("a.json", '{"rawObjects": {}} x', "not JSON"),
        ("a.yaml", "a: [", "not YAML"),
        ("a.yaml", "---\n", "no object that scheduling reads"),
        ("a.txt", "text", r"unknown kind of file, expected .*\.zip"),
        ("a.zip", "PK\x03\x04 and no more", "not a readable archive"),
    ],
)
def test_unusable_input_says_what_was_expected(tmp_path: Path, name: str, content: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(DocumentError, match=message) as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_an_archive_without_snapshot_says_so(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("other.json", "{}")
    with pytest.raises(DocumentError, match="holds no snapshot.json"):
        read(tmp_path / "a.zip")


def test_a_missing_path_says_so(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        read(tmp_path / "absent.json")
