"""A problem with vector observations: they get no ids, and the learner smooths where others count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mdpfn.arrays import Bools, Floats
from mdpfn.checks import checked_action_mask, masks_of
from mdpfn.errors import MdpfnError
from mdpfn.evidence import State
from mdpfn.evidence.smoothed import SmoothedEvidence, SmootherConfig
from mdpfn.online.history import History
from mdpfn.online.options import Options
from mdpfn.online.problem import Problem, agent_rng
from mdpfn.online.vector_learner import VectorLearner
from mdpfn.spaces.squashed import SquashedGaussian
from mdpfn.spaces.vectors import GridCodec, VectorEncoding
from mdpfn.weights.limits import Limits

VECTOR_DISCOUNT = SmootherConfig().discount  # unless the user says another one


class VectorProblem(Problem[VectorLearner]):
    """The encoding of vectors and actions, the learner that sees these, and what happened so far."""

    encoding: VectorEncoding

    @classmethod
    def fresh(
        cls, observation_space: Any, action_space: Any, options: Options, limits: Limits, seed: int | None
    ) -> VectorProblem:
        """A new problem without any data."""
        if options.risk is not None:
            limit = "plans on vectors have no quantiles of Q*"
            raise MdpfnError("risk", options.risk, limit, "leave it out, or use mdpfn.Discretize")
        config = replace(SmootherConfig(), discount=options.discount)
        encoding = VectorEncoding.of_vectors(observation_space, action_space, config)
        states = encoding.states
        evidence = SmoothedEvidence(states.n_dims, encoding.codes, config, agent_rng(seed), states.bounds)
        learner = VectorLearner(evidence, explore=options.explore, replan_every=options.replan_every)
        return cls(encoding, learner, options, limits, History(options.discount))

    def state_id(self, observation: Any, action_mask: Any = None) -> State:
        """The vector of an observation; notes which actions the mask allows there."""
        mask = self.check(observation, action_mask)
        vector = self.encoding.states.encode(observation)
        if mask is not None:
            self._namings.append(self.learner.before().restore)
            self.learner.allow(vector, mask)
        return vector

    def check(self, observation: Any, action_mask: Any = None) -> tuple[bool, ...] | None:
        """The mask as plain bools; refuses masks and observations that cannot be used, before anything changes."""
        self.encoding.states.encode(observation)
        return None if action_mask is None else checked_action_mask(action_mask, self.encoding.actions.n)

    def _act(self, state: State) -> int:
        """The learner's action, exploring."""
        before = self.learner.before()
        try:
            return self.learner.act(state)
        except BaseException:
            self.learner.take_back(before)
            raise

    def best_action(self, x: State, mask: Bools | None = None) -> int:
        """The number of the best known action, of those that a mask (A,) allows."""
        return int(self.learner.greedy(np.asarray(x)[None], None if mask is None else mask[None])[0])

    def predict(self, observation: Any, action_mask: Any, *, deterministic: bool) -> Any:
        """The best action for one observation, or actions for a batch of them; or drawn from the policy."""
        states, actions = self.encoding.states, self.encoding.actions
        batched = states.is_batch(observation)
        x = states.encode_many(observation) if batched else np.asarray(states.encode(observation))[None]
        mask = None
        if action_mask is not None:
            mask = np.array([checked_action_mask(one, actions.n) for one in masks_of(action_mask, len(x))])
        if deterministic:
            decoded = [actions.decode(int(number)) for number in self.learner.greedy(x, mask)]
        else:
            decoded = [self._drawn(policy, mask is not None) for policy in self.learner.policy(x, mask)]
        return actions.batch(decoded) if batched else decoded[0]

    def action_distribution(self, observation: Any) -> SquashedGaussian | Floats:
        """The distribution of actions after an observation: a squashed Gaussian for a Box, else probabilities (A,)."""
        [policy] = self.learner.policy(np.asarray(self.encoding.states.encode(observation))[None])
        actions = self.encoding.actions
        return actions.distribution(policy) if isinstance(actions, GridCodec) else policy

    def _drawn(self, policy: Floats, masked: bool) -> Any:
        """An action drawn from the policy: any point of a Box, or with a mask one of the listed points."""
        actions, rng = self.encoding.actions, self.learner.rng
        if isinstance(actions, GridCodec) and not masked:
            return actions.shaped(actions.distribution(policy).sample(rng, 1)[0])
        return actions.decode(int(rng.choice(len(policy), p=policy)))
