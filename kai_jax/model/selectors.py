"""Label and node selectors over many objects at once."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kai_jax.api.numbers import integer
from kai_jax.api.objects import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kai_jax.model.columns import Column

NAME_FIELD = "metadata.name"


class Labelled:
    """Names and labels of N objects (nodes, volumes); answers selectors with masks bool[N] and remembers them."""

    def __init__(self, names: Sequence[str], labels: Sequence[Mapping[str, str]]) -> None:
        self._labels = labels
        self._names = Column(names)
        self._columns: dict[str, Column[str | None]] = {}
        self._answers: dict[NodeSelector | tuple[Requirement, ...], np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def all(self) -> np.ndarray:
        """bool[N] every object."""
        return np.ones(len(self), dtype=bool)

    def named(self, name: str) -> np.ndarray:
        """bool[N] the objects of this name."""
        return self._names.among((name,))

    def matching(self, selector: NodeSelector) -> np.ndarray:
        """Objects that match one of the terms; a selector without terms matches nothing."""
        if selector not in self._answers:
            answer = ~self.all()
            for term in selector.node_selector_terms:
                answer |= self._term(term)
            self._answers[selector] = answer
        return self._answers[selector]

    def satisfying(self, requirements: tuple[Requirement, ...]) -> np.ndarray:
        """Objects whose labels meet all requirements; without any, all objects."""
        if requirements not in self._answers:
            answer = self.all()
            for requirement in requirements:
                answer &= _meets(self._column(requirement.key), requirement)
            self._answers[requirements] = answer
        return self._answers[requirements]

    def _term(self, term: NodeSelectorTerm) -> np.ndarray:
        """An empty term, and one with a malformed requirement, matches nothing."""
        empty = not term.match_expressions and not term.match_fields
        if empty or not all(map(_well_formed, term.match_expressions)) or not all(map(_field, term.match_fields)):
            return ~self.all()
        answer = self.satisfying(term.match_expressions)
        for requirement in term.match_fields:
            answer = answer & _meets(self._names, requirement)
        return answer

    def _column(self, key: str) -> Column[str | None]:
        if key not in self._columns:
            self._columns[key] = Column(labels.get(key) for labels in self._labels)
        return self._columns[key]


def requirements_of(selector: LabelSelector) -> tuple[Requirement, ...]:
    """A label selector as requirements, all of which must be met."""
    return requirements_of_map(selector.match_labels) + selector.match_expressions


def requirements_of_map(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """Equality with every label of a map, in the order of the keys."""
    return tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items()))


def _meets(column: Column, requirement: Requirement) -> np.ndarray:
    """Rows that meet one requirement; an absent label meets only NotIn and DoesNotExist."""
    match requirement.operator:
        case "In":
            return column.among(requirement.values)
        case "NotIn":
            return ~column.among(requirement.values)
        case "Exists":
            return ~column.among((None,))
        case "DoesNotExist":
            return column.among((None,))
        case "Gt" | "Lt" if (bound := _bound(requirement)) is not None:
            return column.where(_beyond(bound, requirement.operator == "Gt"))
    return column.where(lambda _: False)


def _well_formed(requirement: Requirement) -> bool:
    match requirement.operator:
        case "In" | "NotIn":
            return len(requirement.values) > 0
        case "Exists" | "DoesNotExist":
            return not requirement.values
        case "Gt" | "Lt":
            return _bound(requirement) is not None
    return False


def _field(requirement: Requirement) -> bool:
    return requirement.key == NAME_FIELD and requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def _bound(requirement: Requirement) -> int | None:
    return integer(requirement.values[0]) if len(requirement.values) == 1 else None


def _beyond(bound: int, above: bool) -> Callable[[str | None], bool]:
    def test(label: str | None) -> bool:
        number = integer(label or "")
        return number is not None and (number > bound if above else number < bound)

    return test
