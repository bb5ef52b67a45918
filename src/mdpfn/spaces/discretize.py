"""Continuous environments as finite ones: every dimension of a Box cut into bins."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from mdpfn.arrays import Floats
from mdpfn.checks import check_choice, finite_floats, whole_number
from mdpfn.errors import MdpfnError, shown

STRATEGIES = ("uniform", "quantile")
UNBOUNDED = 1e30  # bounds beyond this are a way to write infinity


class Discretize(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose Box observations are bins, and whose Box actions are chosen from a grid.

    - `bins`: how many per dimension of the observation, one number for all or one for each.
    - `strategy`: "uniform" bins are equally wide, between the bounds of the space where these are finite and
      between the smallest and the largest sample elsewhere; "quantile" bins hold equally many samples each.
    - `samples`: observations (n, d) to fit the bins to, or how many to collect with random actions before the
      first episode. Values beyond the outer bins fall into these.
    - `action_bins`: values per dimension of a Box action, from its lower to its upper bound.
    - `seed`: of the random actions, so that bins are repeatable.

    What is no Box is passed through. Observations and actions become MultiDiscrete.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        bins: int | Sequence[int] = 8,
        *,
        strategy: str = "uniform",
        samples: ArrayLike | int = 1_000,
        action_bins: int = 5,
        seed: int = 0,
    ) -> None:
        super().__init__(env)
        check_choice("strategy", strategy, STRATEGIES)
        boxes = [isinstance(space, spaces.Box) for space in (env.observation_space, env.action_space)]
        if not any(boxes):
            limit = "neither its observations nor its actions are a Box"
            raise MdpfnError("env", shown(env), limit, "use it as it is, or flatten it with gymnasium's wrappers")
        self._grid = _action_grid(env.action_space, action_bins) if boxes[1] else None
        self._edges: list[Floats] | None = None
        if self._grid is not None:
            self.action_space = spaces.MultiDiscrete([len(values) for values in self._grid])
        if boxes[0]:
            space: Any = env.observation_space
            counts = _bin_counts(bins, int(np.prod(space.shape)))
            points = (
                self._collected(int(samples), seed)
                if isinstance(samples, int | np.integer)
                else _checked(samples, len(counts))
            )
            low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
            self._edges = [_edges(strategy, n, *column) for n, *column in zip(counts, points.T, low, high, strict=True)]
            self.observation_space = spaces.MultiDiscrete([len(edges) + 1 for edges in self._edges])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The bins of the first observation of an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.observation(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """What followed an action, observed in bins."""
        observation, reward, terminated, truncated, info = self.env.step(self.action(action))
        return self.observation(observation), reward, terminated, truncated, info

    def observation(self, observation: Any) -> Any:
        """The bin of every dimension."""
        if self._edges is None:
            return observation
        values = np.asarray(observation, dtype=np.float64).reshape(-1)
        if np.isnan(values).any():
            limit = "no bin holds NaN"
            raise MdpfnError("observation", shown(observation), limit, "mend the environment")
        return np.array([edges.searchsorted(x, side="right") for edges, x in zip(self._edges, values, strict=True)])

    def action(self, action: Any) -> Any:
        """The point of the grid that an action stands for."""
        if self._grid is None:
            return action
        space: Any = self.env.action_space
        point = [values[int(i)] for values, i in zip(self._grid, np.asarray(action).reshape(-1), strict=True)]
        return np.array(point, dtype=space.dtype).reshape(space.shape)

    def _collected(self, n: int, seed: int) -> Floats:
        """(n, d) observations of random actions."""
        whole_number("samples", n, low=1)
        self.env.action_space.seed(seed)
        observation, _ = self.env.reset(seed=seed)
        points = []
        for _ in range(n):
            points.append(np.asarray(observation, dtype=np.float64).reshape(-1))
            observation, _, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            if terminated or truncated:
                observation, _ = self.env.reset()
        return np.stack(points)


def _edges(strategy: str, n: int, points: Floats, low: float, high: float) -> Floats:
    """(at most n − 1,) where one bin ends and the next begins."""
    if strategy == "quantile":
        return np.unique(np.quantile(points, np.linspace(0, 1, n + 1)[1:-1]))
    low = low if np.isfinite(low) and abs(low) < UNBOUNDED else float(points.min())
    high = high if np.isfinite(high) and abs(high) < UNBOUNDED else float(points.max())
    return np.unique(np.linspace(low, high, n + 1)[1:-1])


def _bin_counts(bins: int | Sequence[int], dimensions: int) -> list[int]:
    counts = [bins] * dimensions if isinstance(bins, int | np.integer) else list(bins)
    if len(counts) != dimensions:
        limit = f"the observation has {dimensions} dimensions"
        raise MdpfnError("bins", shown(bins), limit, "give one number, or one for each dimension")
    return [whole_number("bins", count, low=1) for count in counts]


def _checked(samples: ArrayLike, dimensions: int) -> Floats:
    points = finite_floats("samples", samples)
    if len(points) == 0 or points.size != len(points) * dimensions:
        limit = f"they must be observations of {dimensions} dimensions, at least one"
        raise MdpfnError("samples", f"an array of shape {points.shape}", limit, "reshape them")
    return points.reshape(len(points), dimensions)


def _action_grid(space: Any, n: int) -> list[Floats]:
    """The values to choose from, dimension by dimension."""
    whole_number("action_bins", n, low=1)
    low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
    if not (np.isfinite(low) & np.isfinite(high)).all():
        limit = "a grid needs finite bounds"
        remedy = "leave ClipAction out, or declare them with gymnasium.wrappers.TransformAction(env, f, Box(…))"
        raise MdpfnError("the action space", space, limit, remedy)
    return [np.linspace(a, b, n) if n > 1 else np.array([(a + b) / 2]) for a, b in zip(low, high, strict=True)]
