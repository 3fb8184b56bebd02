"""Scheduler configuration: actions, plugins, queue depths, search budgets, and the parameters of one shard.

`Settings` is what a document or file says; `resolve` lays it over the defaults and reports what it does not know.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kai_jax.api.numbers import decimal
from kai_jax.api.objects import NOTHING, Wire
from kai_jax.api.plain import InputError, read_yaml, typed, without_nulls
from kai_jax.api.times import TimeError, seconds

T = TypeVar("T")


class ConfigError(InputError):
    """A configuration that cannot be used at all."""


# ------------------------------------------------------------------------------------ what the scheduler reads


class Plugin(Wire, frozen=True):
    name: str
    arguments: Mapping[str, str] = NOTHING


DEFAULT_ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
DEFAULT_PLUGINS = (  # (default configuration), spec 03 §1.3
    Plugin("predicates"),
    Plugin("proportion"),
    Plugin("priority"),
    Plugin("elastic"),
    Plugin("kubeflow"),
    Plugin("ray"),
    Plugin("nodeavailability"),
    Plugin("gpusharingorder"),
    Plugin("gpupack"),
    Plugin("resourcetype"),
    Plugin("subgrouporder"),
    Plugin("taskorder"),
    Plugin("nominatednode"),
    Plugin("dynamicresources"),
    Plugin("nodeplacement", {"cpu": "binpack", "gpu": "binpack"}),
    Plugin("minruntime"),
    Plugin("topology"),
    Plugin("snapshot"),
    Plugin("sg-nodelocalgreedy"),
    Plugin("sg-multinodegang"),
)
KNOWN_PLUGINS = frozenset({"podaffinity", "gpuspread", "numa", "reflectjoborder", *(p.name for p in DEFAULT_PLUGINS)})
KNOWN_GENERATORS = frozenset({"default", "NodeLocalGreedy", "MultiNodeGang"})


class SearchBudgets(Wire, frozen=True):
    """Wall-clock limits of searches for victims [s]; 0 is unlimited. Absent names have the one of "default"."""

    action: Mapping[str, float] = msgspec.field(default=NOTHING, name="maxActionSearchDuration")
    job: float = msgspec.field(default=0.0, name="maxJobSearchDuration")
    job_minimum: float = msgspec.field(default=0.0, name="minJobSearchDuration")
    generator: Mapping[str, float] = msgspec.field(default=NOTHING, name="maxGeneratorSearchDuration")


class Config(Wire, frozen=True):
    """Actions and plugins in the order they run; tiers mean nothing beyond that order."""

    actions: tuple[str, ...] = DEFAULT_ACTIONS
    plugins: tuple[Plugin, ...] = DEFAULT_PLUGINS
    queue_depth_per_action: Mapping[str, int] = NOTHING  # jobs per leaf queue; -1 or absent: unlimited
    search_budgets: SearchBudgets = SearchBudgets()

    def has(self, plugin: str) -> bool:
        return any(entry.name == plugin for entry in self.plugins)

    def argument(self, plugin: str, key: str) -> str | None:
        """An argument as written; None where the plugin is off or has no such argument."""
        return next((entry.arguments.get(key) for entry in self.plugins if entry.name == plugin), None)

    @property
    def k_value(self) -> float:
        """How much past usage weighs in fair shares: 1 unless a number is given, never below 0 (spec 02 §2)."""
        number = decimal(self.argument("proportion", "kValue") or "")
        return 1.0 if number is None else max(0.0, number)

    def spreads(self, resource: str) -> bool:
        """Whether pods that ask for a resource ("gpu" or "cpu") are spread over nodes rather than packed."""
        return self.argument("nodeplacement", resource) == "spread"


class Params(Wire, frozen=True):
    """The flags of one scheduler, that is, of one shard."""

    scheduler_name: str = "kai-scheduler"
    node_pool_label_key: str = "kai.scheduler/node-pool"  # "" selects every object
    node_pool_label_value: str = ""  # "" selects the objects that lack the label
    restrict_scheduling_nodes: bool = False
    full_hierarchy_fairness: bool = True
    schedule_csi_storage: bool = msgspec.field(default=False, name="scheduleCSIStorage")
    use_scheduling_signatures: bool = True
    allow_consolidating_reclaim: bool = True
    max_consolidation_preemptees: int = msgspec.field(default=16, name="maxNumberConsolidationPreemptees")
    stuck_in_releasing_threshold: float = 120.0  # [s]
    staleness_grace_period: float = msgspec.field(default=60.0, name="globalDefaultStalenessGracePeriod")  # [s]
    queue_label_key: str = "kai.scheduler/queue"
    cpu_worker_node_label_key: str = "node-role.kubernetes.io/cpu-worker"
    gpu_worker_node_label_key: str = "node-role.kubernetes.io/gpu-worker"
    mig_worker_node_label_key: str = "node-role.kubernetes.io/mig-enabled"
    resource_reservation_app_label: str = "kai-resource-reservation"


_OTHER_PARAMS = frozenset({  # keys of the peer's dumps: the first is spread out, the others mean nothing here
    "partitionParams", "schedulePeriod", "numOfStatusRecordingWorkers", "detailedFitErrors",
    "updatePodEvictionCondition",
})  # fmt: skip


# ------------------------------------------------------------------------------------ what files say


@dataclass(frozen=True)
class Settings:
    """Plain values under the keys of a document's `config` and `schedulerParams`; what is absent is not said."""

    config: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)

    def overridden_by(self, other: "Settings") -> "Settings":
        """These settings, with everything that `other` says taken from there."""
        return Settings(_merge(self.config, other.config), _merge(self.params, other.params))


def document_settings(config: Any, params: Any) -> Settings:
    """Settings of a snapshot document, from its plain `config` and `schedulerParams`. Raises ConfigError.

    The peer leaves out what is zero, so in its own dump (which always has `schedulePeriod`) an absent switch is off.
    """
    settings = Settings(_mapping(config, "config"), _mapping(params, "schedulerParams"))
    if "schedulePeriod" not in settings.params:
        return settings
    zero = {
        "fullHierarchyFairness": False,
        "useSchedulingSignatures": False,
        "allowConsolidatingReclaim": False,
        "maxNumberConsolidationPreemptees": 0,
    }
    return Settings(params=zero).overridden_by(settings)


def read_settings(path: Path) -> Settings:
    """Settings of a `--config` file: YAML with the keys of a document's `config`, and `schedulerParams` beside them.

    Raises ConfigError for a file that cannot be read, cannot be used, or has another key.
    """
    try:
        config = dict(_mapping(read_yaml(path), "configuration"))
        params = _mapping(config.pop("schedulerParams", None), "schedulerParams")
        _expect_keys(config, {*_ConfigFields.__struct_encode_fields__, "schedulerParams"}, "")
        _expect_keys(params, {*Params.__struct_encode_fields__, *_OTHER_PARAMS}, "schedulerParams.")
        budgets = _mapping(config.get("scenarioSearchBudgets"), "scenarioSearchBudgets")
        _expect_keys(budgets, set(SearchBudgets.__struct_encode_fields__), "scenarioSearchBudgets.")
        settings = Settings(config, params)
        resolve(settings)
    except InputError as error:
        raise ConfigError(f"{path}: {error}") from error
    return settings


def _expect_keys(values: Mapping[str, Any], known: set[str], prefix: str) -> None:
    for key in values:
        if key not in known:
            raise ConfigError(f"unknown key {prefix + key!r}, expected {', '.join(sorted(known))}")


# ------------------------------------------------------------------------------------ from settings to configuration


class _Tier(Wire, frozen=True):
    plugins: tuple[Plugin, ...] = ()


class _ConfigFields(Wire, frozen=True):
    actions: str | tuple[str, ...] = DEFAULT_ACTIONS
    tiers: tuple[_Tier, ...] = ()
    queue_depth_per_action: Mapping[str, int] = NOTHING
    scenario_search_budgets: SearchBudgets = SearchBudgets()
    usage_db_config: Mapping[str, Any] = msgspec.field(default=NOTHING, name="usageDBConfig")


_DEFAULT_BUDGETS = {
    "maxActionSearchDuration": {"default": "5m"},
    "maxJobSearchDuration": "4m",
    "minJobSearchDuration": "0s",
    "maxGeneratorSearchDuration": {"default": "2m", "NodeLocalGreedy": "30s", "MultiNodeGang": "2m"},
}
_DEFAULTS = Settings(config={"scenarioSearchBudgets": _DEFAULT_BUDGETS})


def resolve(settings: Settings) -> tuple[Config, Params, tuple[str, ...]]:
    """Configuration and parameters over the defaults, and a warning per part that is left out. Raises ConfigError."""
    complete = _DEFAULTS.overridden_by(settings)
    fields = _convert(_config_values(complete.config), _ConfigFields, "config")
    params = _convert(_params_values(complete.params), Params, "schedulerParams")

    listed = [name.strip() for name in _listed(fields.actions)]
    actions = list(dict.fromkeys(listed))
    plugins = [plugin for tier in fields.tiers for plugin in tier.plugins] or DEFAULT_PLUGINS
    config = Config(
        actions=tuple(name for name in actions if name in DEFAULT_ACTIONS),
        plugins=tuple(plugin for plugin in plugins if plugin.name in KNOWN_PLUGINS),
        queue_depth_per_action=fields.queue_depth_per_action,
        search_budgets=fields.scenario_search_budgets,
    )
    depths, generators = config.queue_depth_per_action, config.search_budgets.generator
    warnings = [
        *_warnings_of_arguments(config),
        *(f"config.actions: unknown action {a!r} is left out" for a in actions if a not in DEFAULT_ACTIONS),
        *(f"config.actions: {a!r} is named more than once, runs once" for a in actions if listed.count(a) > 1),
        *(f"config.tiers: unknown plugin {p.name!r} is left out" for p in plugins if p.name not in KNOWN_PLUGINS),
        *(f"config.queueDepthPerAction: unknown action {a!r}" for a in depths if a not in DEFAULT_ACTIONS),
        *(f"config.queueDepthPerAction.{a}: {d} counts as -1, unlimited" for a, d in depths.items() if d < -1),
        *(f"config.scenarioSearchBudgets: unknown generator {g!r}" for g in generators if g not in KNOWN_GENERATORS),
    ]
    if fields.usage_db_config:
        warnings.append("config.usageDBConfig: not read, past usage is zero unless it is given as a file")
    return config, params, tuple(warnings)


def _warnings_of_arguments(config: Config) -> Iterator[str]:
    weight = config.argument("proportion", "kValue")
    if weight is not None and decimal(weight) is None:
        yield f"config.tiers: plugin proportion: kValue: {weight!r} is not a number, 1 counts"
    for resource in ("cpu", "gpu"):
        strategy = config.argument("nodeplacement", resource)
        if strategy not in (None, "binpack", "spread"):
            yield f"config.tiers: plugin nodeplacement: {resource}: unknown strategy {strategy!r}, binpack counts"


def _listed(actions: str | tuple[str, ...]) -> tuple[str, ...] | list[str]:
    return actions.split(",") if isinstance(actions, str) else actions


def _config_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with durations in seconds and plugin arguments as text."""
    budgets = config["scenarioSearchBudgets"]
    return {
        **config,
        "scenarioSearchBudgets": _in_seconds(budgets, "config.scenarioSearchBudgets"),
        "tiers": _texts(config.get("tiers", [])),
    }


def _params_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """`params` with durations in seconds and the partition spread out."""
    partition = _mapping(params.get("partitionParams"), "schedulerParams.partitionParams")
    spread = {"NodePoolLabelKey": "nodePoolLabelKey", "NodePoolLabelValue": "nodePoolLabelValue"}
    durations = ("stuckInReleasingThreshold", "globalDefaultStalenessGracePeriod")
    return {
        **params,
        **{flat: partition[key] for key, flat in spread.items() if key in partition},
        **{key: _in_seconds(params[key], f"schedulerParams.{key}") for key in durations if key in params},
    }


def _in_seconds(value: Any, field: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_seconds(entry, f"{field}.{key}") for key, entry in value.items()}
    if not isinstance(value, str | int) or isinstance(value, bool):
        return value
    try:
        return seconds(value)
    except TimeError as error:
        raise ConfigError(f"{field}: {error}") from error


def _texts(value: Any) -> Any:
    """`value` with numbers and switches as text: YAML reads `kValue: 0.5` as a number."""
    if isinstance(value, Mapping):
        return {key: _texts(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_texts(entry) for entry in value]
    return str(value).lower() if isinstance(value, bool | int | float) else value


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: expected an object, found {type(value).__name__}")
    return without_nulls(value)


def _merge(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in other.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _convert(values: Mapping[str, Any], kind: type[T], name: str) -> T:
    try:
        return typed(values, kind)
    except InputError as error:
        raise ConfigError(f"{name}.{error}") from error
