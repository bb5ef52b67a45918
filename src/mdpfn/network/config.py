"""The configuration of the network, and the names and shapes of its parameters."""

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Literal

from mdpfn.checks import check_types, whole_number
from mdpfn.errors import MdpfnError
from mdpfn.network.features import PLAIN, PLANNED, Inputs

Shape = tuple[int, ...]
Rounding = Literal["none", "bfloat16"]  # of factors of matrix products in training


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network; the defaults are the paper's."""

    width: int = 256
    n_heads: int = 8
    depth: int = 20  # K: propagation steps; the weights are tied, so any depth runs at use
    trained_depth: int | None = None  # steps beyond it go less and less far; None: they are steps like the others
    transition_bias: float = 1.0  # β
    dropout: float = 0.05
    most_visits: float = 20.0  # more of them count as so many in plain inputs: about the most it meets in training
    inputs: Inputs = "plain"  # the paper's features, or also what planners make of them
    quantiles: tuple[float, ...] = ()  # levels of the quantiles of Q* that are read off beside the policy
    action_pooling: bool = False  # are actions never tried in a state told apart by what they do elsewhere?

    def __post_init__(self) -> None:
        if isinstance(self.quantiles, list):  # as JSON has it
            object.__setattr__(self, "quantiles", tuple(self.quantiles))
        check_types(self)
        for field, low in (("width", 1), ("n_heads", 1), ("depth", 0)):
            whole_number(field, getattr(self, field), low)
        if not self.most_visits > 0:
            raise MdpfnError("most_visits", self.most_visits, "it must be positive", "use a value such as 20")
        if self.trained_depth is not None:
            whole_number("trained_depth", self.trained_depth, low=1)
        if self.width % self.n_heads:
            raise MdpfnError(
                "width", self.width, f"it must be divisible by n_heads = {self.n_heads}", "change one of them"
            )
        if not 0 <= self.dropout < 1:
            raise MdpfnError("dropout", self.dropout, "it must lie in [0, 1)", "use a value such as 0.05")
        if list(self.quantiles) != sorted({q for q in self.quantiles if 0 < q < 1}):
            raise MdpfnError("quantiles", self.quantiles, "they must rise and lie in (0, 1)", "correct the levels")
        if self.action_pooling and self.inputs == "plain":
            raise MdpfnError("action_pooling", True, "it needs planned inputs", "change inputs")
        if self.quantiles and (self.inputs == "plain" or 0.5 not in self.quantiles):
            limit = "they need planned inputs and the median, 0.5, among them"
            raise MdpfnError("quantiles", self.quantiles, limit, "add what is missing")

    def unrolled(self, depth: int | None, transition_bias: float | None) -> tuple[int, float]:
        """How many steps to take and with which β: those of the configuration, unless others are given."""
        depth = whole_number("depth", self.depth if depth is None else depth, low=0)
        beta = self.transition_bias if transition_bias is None else transition_bias
        if not (isinstance(beta, Real) and isfinite(beta)):
            raise MdpfnError("transition_bias", repr(beta), "it must be finite", "use a value such as 1")
        return depth, beta

    def share_of_step(self, number: int) -> float:
        """How far step ℓ goes: all the way, and (K/ℓ)² of it beyond the depth K of training.

        These shares sum up to less than K, so that any depth at use ends near what training knows.
        """
        trained = self.trained_depth
        return 1.0 if trained is None or number <= trained else (trained / number) ** 2

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of every parameter by its name."""
        d, n_out = self.width, 1 + len(self.quantiles)
        of_pair, of_state, of_row = PLAIN if self.inputs == "plain" else PLANNED
        linear = {
            **_mlp("encoder", of_pair, d, d),
            **_mlp("state_init", d + of_state, d, d),
            "query": (d, 2 * d),
            "key": (d, d),
            "value": (d, d),
            "output": (d, d),
            **_mlp("pair_update", 3 * d, d, d),
            **_mlp("state_update", 2 * d, d, d),
            "pair_norm": (d,),
            "state_norm": (d,),
            **_mlp("head", 3 * d + of_row, d, n_out),
            **(_mlp("plan_residual.trust", d, d, of_row) if of_row else {}),
            **(_mlp("action_pooling.shift", d + of_row + 1, d, 2) if self.action_pooling else {}),
        }
        shapes: dict[str, Shape] = {"plan_residual.always.weight": (n_out, of_row)} if of_row else {}
        for name, shape in linear.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        return shapes


def _mlp(name: str, n_in: int, width: int, n_out: int) -> dict[str, Shape]:
    return {f"{name}.hidden": (width, n_in), f"{name}.out": (n_out, width)}
