"""Which nodes, queues and podgroups belong to this scheduler (spec 01 §7)."""

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_POOL = "default"


@dataclass(frozen=True, slots=True)
class Shard:
    """Selects by one label; without a value, the label must not exist; without a key, everything belongs."""

    label: str
    value: str

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels belongs to the shard."""
        if not self.label:
            return True
        if not self.value:
            return self.label not in labels
        return labels.get(self.label) == self.value

    def pool_of(self, labels: Mapping[str, str]) -> str:
        """The node pool that an object names."""
        return labels.get(self.label) or DEFAULT_POOL
