"""Objects that name nothing, or things that are not there."""

from regression.clusters import Cluster, bound, reasons

from kai_jax.explain import explain


def test_b104_a_request_for_nothing_of_an_unknown_resource_is_ignored() -> None:
    cluster = Cluster().queue("q").node("n1", 1)
    cluster.job("zero", "q", requests={"cpu": "1", "x/y": "0"}).job("one", "q", requests={"cpu": "1", "x/y": "1"})
    assert bound(cluster.run()) == {"zero-0": "n1"}


def test_b105_a_missing_config_map_matters_where_it_is_required() -> None:
    def using(mounted: bool, **reference: bool) -> dict:
        source = {"configMap": {"name": "missing", **reference}}
        mounts = [{"name": "v"}] if mounted else []
        return {
            "volumes": [{"name": "v", "projected": {"sources": [source]}}],
            "containers": [{"name": "main", "volumeMounts": mounts}],
        }

    cluster = Cluster().queue("q").node("n1")
    cluster.job("optional", "q", gpus=0, **using(True, optional=True)).job("required", "q", gpus=0, **using(True))
    cluster.job("unused", "q", gpus=0, **using(False))
    outcome = cluster.run()
    assert bound(outcome) == {"optional-0": "n1", "unused-0": "n1"}
    assert reasons(outcome, "required") == ["PodSchedulingErrors"]
    assert "missing" in explain(outcome, "team/required").headline


def test_b69_a_finished_pod_that_names_a_lost_claim_troubles_nobody() -> None:
    claims = [{"name": "c", "resourceClaimName": "lost"}]
    cluster = Cluster().queue("q").node("n1", 1).group("job", "q", 1)
    cluster.pod("done", "job", 1, on="n1", phase="Succeeded", resourceClaims=claims).pod("next", "job", 1)
    outcome = cluster.run()
    assert bound(outcome) == {"next": "n1"}
    assert outcome.warnings == ()
