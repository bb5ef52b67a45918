"""Limits on the size of problems, and the sizes and discounts the weights were trained for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from mdpfn.checks import check_types
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence import PairTable
from mdpfn.weights.store import LARGEST_DEPTH, Model


@dataclass(frozen=True)
class Limits:
    """The largest problem an agent accepts. Beyond the sizes that its weights were trained on, it extrapolates.

    Memory and time of a plan grow with the distinct transitions observed, those of its output with the pairs. At
    the limit, a network of width 128 and depth 20 plans for about a minute in 2 GB on one core.
    """

    states: int = 50_000
    actions: int = 1_000
    pairs: int = 1_000_000  # states × actions
    distinct_transitions: int = 200_000  # observed (s, a, s')
    depth: int = LARGEST_DEPTH  # propagation steps of a plan
    trained_discount: tuple[float, float] | None = None  # None where the weights do not say
    reads_discount: bool = False  # whether it is an input of the network

    def __post_init__(self) -> None:
        check_types(self)

    @classmethod
    def of(cls, model: Model) -> Limits:
        """The limits of an agent with this model, whose card names the prior it was trained on."""
        config: dict[str, Any] = (model.card.get("training") or {}).get("config") or {}
        prior = model.prior or config.get("prior") or {}
        return cls(
            trained_discount=_range(prior.get("discount")),
            reads_discount=model.network.config.inputs == "planned",
        )

    def check_sizes(self, n_states: int, n_actions: int) -> None:
        """Refuse spaces that are too large."""
        for field, value, most in (
            ("the number of states", n_states, self.states),
            ("the number of actions", n_actions, self.actions),
            ("states × actions", n_states * n_actions, self.pairs),
        ):
            if value > most:
                remedy = "use fewer bins, merge states that are alike or split the problem"
                raise MdpfnError(field, value, f"an agent takes at most {most} (agent.limits)", remedy)

    def check(self, z: PairTable) -> None:
        """Refuse statistics of one MDP that no plan can be made of."""
        self.check_sizes(int(z.n_states[0]), int(z.n_actions[0]))
        observed = len(z.successor)
        if observed > self.distinct_transitions:
            limit = f"a plan takes at most {self.distinct_transitions} distinct ones (agent.limits)"
            raise MdpfnError("the number of observed transitions", observed, limit, "merge states that are alike")

    def warn_of_discount(self, discount: float) -> None:
        """Warn of a discount that the weights were not trained for."""
        trained = self.trained_discount
        if trained is not None and not trained[0] <= discount <= trained[1]:
            known = f"{trained[0]:g}" if trained[0] == trained[1] else f"{trained[0]:g} to {trained[1]:g}"
            effect = "plans for yours are extrapolated" if self.reads_discount else "only estimated values use yours"
            text = f"discount is {discount}, but these weights were trained for {known}: {effect}"
            warnings.warn(text, UserWarning, stacklevel=4)

    def checked_depth(self, depth: int | None) -> int | None:
        """The depth, refused if it is no whole number within the limit."""
        if depth is None:
            return None
        if isinstance(depth, bool) or not isinstance(depth, Integral) or not 0 <= depth <= self.depth:
            limit = f"it must be a whole number from 0 to {self.depth} (agent.limits)"
            raise MdpfnError("depth", shown(depth), limit, "leave it out for the depth of the weights")
        return int(depth)


def _range(value: Any) -> Any:
    """(low, high) of a range, or of a single number."""
    return tuple(value) if isinstance(value, list | tuple) else None if value is None else (value, value)
