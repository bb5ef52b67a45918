"""The learned world: smoother, termination and potential together, to be rolled forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch
from mdpfn.evidence.smoothed.potential import Potential, fit_potential
from mdpfn.evidence.smoothed.smoother import Smoother, fit_smoother
from mdpfn.evidence.smoothed.termination import Termination, fit_termination


class Step(NamedTuple):
    """One imagined step."""

    y: Floats  # (n, d) successor
    reward: Floats  # (n,) ends included
    survival: Floats  # (n,) the probability of going on


class Options(NamedTuple):
    """Actions held for some strides."""

    end: Floats  # (strides, n, d) where they lead
    reward: Floats  # (strides, n) what they pay, discounted
    discount: Floats  # (strides, n) γ^stride × survival
    survival: Floats  # (strides, n)


@dataclass(frozen=True, eq=False)
class WorldModel:
    """What is believed of the environment; immutable, so that a plan can keep the model it was made with."""

    smoother: Smoother
    termination: Termination | None
    potential: Potential | None
    codes: Floats  # (actions, p) what the smoother sees of each action
    discount: float

    @classmethod
    def fit(
        cls,
        data: Batch,
        codes: Floats,
        bounds: tuple[Floats, Floats],
        config: SmootherConfig,
        rng: np.random.Generator,
        previous: WorldModel | None = None,
    ) -> WorldModel:
        """All parts fitted to the transitions."""
        smoother = fit_smoother(data, bounds, config, rng, previous.smoother if previous else None)
        termination = fit_termination(data, smoother.mean_in, smoother.scale_in, config, rng)
        potential = fit_potential(data, len(codes), smoother, rng)
        return cls(smoother, termination, potential, codes, config.discount)

    @property
    def ends_at_once(self) -> bool:
        """Whether hardly any transition is known after which an episode went on."""
        return self.smoother.n_ended > 0

    @property
    def reward_noise(self) -> float:
        """The standard deviation of rewards about what is believed, as left out transitions tell it."""
        return 1.48 * self.smoother.reward_error * float(self.smoother.scale_out[-1])

    def step(self, x: Floats, action: Ints) -> Step:
        """Expected successor of (x, action), kept within the box that was seen."""
        s = self.smoother
        out = s.predict(x, self.codes[action])
        y = out[:, :-1]
        y += x
        np.maximum(y, s.low, out=y)
        np.minimum(y, s.high, out=y)
        reward = out[:, -1]
        if self.potential is not None:
            reward = self.potential.action_reward[action] + (1 - self.discount) * self.potential(y)
        if self.termination is None:
            return Step(y, reward, np.ones(len(y)))
        p = self.termination.probability(y)
        at_end = reward if self.ends_at_once else self.termination.reward(y, p)
        if self.potential is not None:
            at_end = at_end + self.potential(x)
        return Step(y, reward + p * (at_end - reward), 1 - p)

    def roll(self, x: Floats, action: Ints, strides: tuple[int, ...]) -> Options:
        """Each action held for each of the strides; few NumPy calls per step, ends are judged for all steps at once."""
        s, (n, d), steps, gamma = self.smoother, x.shape, strides[-1], self.discount
        u = s.inputs(x, self.codes[action])
        path, rewards = np.empty((steps + 1, n, d)), np.empty((steps, n))
        path[0] = x
        here, shift = u[:, :d], np.append(1 / s.scale_in, 1.0)
        low, high = (s.low - s.mean_in) * shift[:d], (s.high - s.mean_in) * shift[:d]
        for t in range(steps):
            out = s.outputs(u)
            out *= shift
            rewards[t] = out[:, d]
            here += out[:, :d]
            np.maximum(here, low, out=here)
            np.minimum(here, high, out=here)
            path[t + 1] = here
        rewards = s.possible(rewards)
        path[1:] *= s.scale_in
        path[1:] += s.mean_in
        phi = None if self.potential is None else self.potential(path.reshape(-1, d)).reshape(steps + 1, n)
        if self.potential is not None and phi is not None:
            rewards = self.potential.action_reward[action] + (1 - gamma) * phi[1:]
        alive = np.ones((steps + 1, n))
        if self.termination is not None:
            y = path[1:].reshape(-1, d)
            p = self.termination.probability(y)
            at_end = rewards if self.ends_at_once else self.termination.reward(y, p).reshape(steps, n)
            p = p.reshape(steps, n)
            if phi is not None:
                at_end = at_end + phi[:-1]
            rewards = rewards + p * (at_end - rewards)
            np.cumprod(1 - p, axis=0, out=alive[1:])
        fade = gamma ** np.arange(steps + 1.0)[:, None]
        total = np.cumsum(fade[:-1] * alive[:-1] * rewards, axis=0)
        at = np.array(strides)
        return Options(path[at], total[at - 1], (fade * alive)[at], alive[at])
