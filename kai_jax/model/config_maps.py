"""Config maps that a pod needs before it can run (spec 04 §1.4)."""

from collections.abc import Iterator, Set

from kai_jax.api.objects import ConfigMapReference, Container, Pod, Volume

SHARED_GPU_PREFIX = "runai/shared-gpu-configmap"


def missing_config_maps(pod: Pod, existing: Set[tuple[str, str]]) -> tuple[str, ...]:
    """Names, sorted, of required config maps that `existing` (namespace, name) lacks.

    Maps of the device-sharing runtime are made later by the binder: the annotation holds the prefix of their names.
    """
    missing = {
        reference.name
        for reference in _references(pod, pod.spec.all_containers)
        if not reference.optional and (pod.metadata.namespace, reference.name) not in existing
    }
    if not missing:
        return ()
    prefix = pod.metadata.annotations.get(SHARED_GPU_PREFIX)
    return tuple(sorted(name for name in missing if prefix is None or not name.startswith(prefix)))


def _references(pod: Pod, containers: tuple[Container, ...]) -> Iterator[ConfigMapReference]:
    for container in containers:
        for variable in container.env:
            if variable.value_from is not None and variable.value_from.config_map_key_ref is not None:
                yield variable.value_from.config_map_key_ref
        for source in container.env_from:
            if source.config_map_ref is not None:
                yield source.config_map_ref
    if pod.spec.volumes:
        mounted = {mount.name for container in containers for mount in container.volume_mounts}
        for volume in pod.spec.volumes:
            if volume.name in mounted:
                yield from _in_volume(volume)


def _in_volume(volume: Volume) -> Iterator[ConfigMapReference]:
    if volume.config_map is not None:
        yield volume.config_map
    if volume.projected is not None:
        for source in volume.projected.sources:
            if source.config_map is not None:
                yield source.config_map
