from pathlib import Path
from typing import Any

import pytest

from kai_jax.api.config import DEFAULT_PLUGINS, ConfigError, Settings, document_settings, read_settings, resolve


def test_nothing_said_gives_the_built_in_configuration() -> None:
    config, params, warnings = resolve(Settings())

    assert config.actions == ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
    assert [plugin.name for plugin in config.plugins][:4] == ["predicates", "proportion", "priority", "elastic"]
    assert config.argument("nodeplacement", "gpu") == "binpack"
    assert not config.has("podaffinity")
    assert config.search_budgets.action["default"] == 300.0
    assert config.search_budgets.generator["NodeLocalGreedy"] == 30.0
    assert params.full_hierarchy_fairness
    assert params.stuck_in_releasing_threshold == 120.0
    assert warnings == ()


def test_document_configuration_is_read_in_order() -> None:
    config = {
        "actions": "allocate, reclaim",
        "tiers": [
            {"plugins": [{"name": "gpuspread"}, {"name": "proportion", "arguments": {"kValue": "0.5"}}]},
            {"plugins": [{"name": "priority", "disableJobOrder": True, "arguments": None}]},
        ],
        "queueDepthPerAction": {"allocate": 2},
        "scenarioSearchBudgets": {"maxJobSearchDuration": "0s", "maxActionSearchDuration": {"reclaim": 10**9}},
        "ofAFutureVersion": {},
    }

    read, _, warnings = resolve(document_settings(config, None))

    assert read.actions == ("allocate", "reclaim")
    assert [plugin.name for plugin in read.plugins] == ["gpuspread", "proportion", "priority"]
    assert read.argument("proportion", "kValue") == "0.5"
    assert read.argument("priority", "kValue") is None
    assert read.argument("gpupack", "kValue") is None
    assert read.queue_depth_per_action == {"allocate": 2}
    assert read.search_budgets.job == 0.0
    assert read.search_budgets.action == {"default": 300.0, "reclaim": 1.0}
    assert warnings == ()


def test_parameters_of_a_shard() -> None:
    written = {
        "schedulerName": "other",
        "partitionParams": {"NodePoolLabelKey": "pool", "NodePoolLabelValue": "blue"},
        "restrictSchedulingNodes": True,
        "stuckInReleasingThreshold": 90_000_000_000,
        "globalDefaultStalenessGracePeriod": "-1s",
        "scheduleCSIStorage": True,
    }

    _, params, _ = resolve(document_settings(None, written))

    assert params.scheduler_name == "other"
    assert (params.node_pool_label_key, params.node_pool_label_value) == ("pool", "blue")
    assert params.restrict_scheduling_nodes
    assert params.stuck_in_releasing_threshold == 90.0
    assert params.staleness_grace_period == -1.0
    assert params.schedule_csi_storage
    assert params.full_hierarchy_fairness


def test_an_empty_node_pool_key_is_kept() -> None:
    _, params, _ = resolve(document_settings(None, {"partitionParams": {"NodePoolLabelKey": ""}}))
    assert params.node_pool_label_key == ""


def test_the_peer_leaves_out_switches_that_are_off() -> None:
    dumped = {"schedulePeriod": 10**9, "allowConsolidatingReclaim": True}

    _, params, _ = resolve(document_settings(None, dumped))

    assert not params.full_hierarchy_fairness
    assert not params.use_scheduling_signatures
    assert params.allow_consolidating_reclaim
    assert params.max_consolidation_preemptees == 0


def test_unknown_names_are_reported_and_the_others_run() -> None:
    config = {
        "actions": "allocate, defragment, allocate",
        "tiers": [{"plugins": [{"name": "magic"}, {"name": "priority"}]}],
        "queueDepthPerAction": {"steal": 1},
        "scenarioSearchBudgets": {"maxGeneratorSearchDuration": {"Oracle": "1s"}},
        "usageDBConfig": {"clientType": "prometheus"},
    }

    read, _, warnings = resolve(document_settings(config, None))

    assert read.actions == ("allocate",)
    assert [plugin.name for plugin in read.plugins] == ["priority"]
    assert len(warnings) == 6
    for name in ("'allocate' is named more than once", "defragment", "magic", "steal", "Oracle", "usageDBConfig"):
        assert any(name in warning for warning in warnings)


def test_arguments_that_mean_nothing_are_reported_and_have_their_default() -> None:
    arguments = {"proportion": {"kValue": "much"}, "nodeplacement": {"gpu": "spread", "cpu": "scatter"}}
    plugins = [{"name": name, "arguments": values} for name, values in arguments.items()]
    config = {"tiers": [{"plugins": plugins}], "queueDepthPerAction": {"allocate": -2, "reclaim": -1}}

    read, _, warnings = resolve(document_settings(config, None))

    assert (read.k_value, read.spreads("gpu"), read.spreads("cpu")) == (1.0, True, False)
    assert warnings == (
        "config.tiers: plugin proportion: kValue: 'much' is not a number, 1 counts",
        "config.tiers: plugin nodeplacement: cpu: unknown strategy 'scatter', binpack counts",
        "config.queueDepthPerAction.allocate: -2 counts as -1, unlimited",
    )


@pytest.mark.parametrize(
    ("config", "params", "field"),
    [
        ([], None, "config"),
        (None, "x", "schedulerParams"),
        ({"tiers": 1}, None, "config.tiers"),
        ({"queueDepthPerAction": {"allocate": "x"}}, None, "config.queueDepthPerAction"),
        ({"scenarioSearchBudgets": {"maxJobSearchDuration": "1 hour"}}, None, "maxJobSearchDuration"),
        (None, {"fullHierarchyFairness": "yes"}, "schedulerParams.fullHierarchyFairness"),
        (None, {"stuckInReleasingThreshold": "2"}, "schedulerParams.stuckInReleasingThreshold"),
        (None, {"partitionParams": []}, "schedulerParams.partitionParams"),
    ],
)
def test_a_wrong_type_names_the_field(config: Any, params: Any, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        resolve(document_settings(config, params))


def test_a_file_overrides_what_it_mentions(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "actions: [allocate]\n"
        "tiers: [{plugins: [{name: proportion, arguments: {kValue: 0.5, flag: true}}]}]\n"
        "schedulerParams: {partitionParams: {NodePoolLabelValue: blue}, fullHierarchyFairness: false}\n"
    )
    document = document_settings(
        {"actions": "reclaim", "queueDepthPerAction": {"allocate": 3}},
        {"partitionParams": {"NodePoolLabelKey": "pool"}, "schedulerName": "mine"},
    )

    config, params, _ = resolve(document.overridden_by(read_settings(file)))

    assert config.actions == ("allocate",)
    assert config.argument("proportion", "kValue") == "0.5"
    assert config.argument("proportion", "flag") == "true"
    assert config.queue_depth_per_action == {"allocate": 3}
    assert (params.node_pool_label_key, params.node_pool_label_value) == ("pool", "blue")
    assert params.scheduler_name == "mine"
    assert not params.full_hierarchy_fairness


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "one YAML document"),
        ("- a", "expected an object"),
        ("action: allocate", "unknown key 'action'"),
        ("schedulerParams: {fullHierachyFairness: false}", "unknown key 'schedulerParams.fullHierachyFairness'"),
        ("scenarioSearchBudgets: {maxJobSerchDuration: 1s}", "unknown key 'scenarioSearchBudgets.maxJobSerchDuration'"),
        ("actions: [", "not YAML"),
        ("tiers: 1", "config.tiers"),
    ],
)
def test_an_unusable_file_says_why(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_settings(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_settings(tmp_path / "absent.yaml")


def test_empty_tiers_mean_the_built_in_plugins() -> None:
    config, _, _ = resolve(document_settings({"tiers": []}, None))
    assert config.plugins == DEFAULT_PLUGINS
