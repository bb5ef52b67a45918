"""The learner on vectors: smooths what it observed, plans on nodes when enough is new, acts by lookahead."""

from __future__ import annotations

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.evidence import Novelty, Transition
from mdpfn.evidence.smoothed import SmoothedEvidence
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.lost import attainable, is_lost, reward_range
from mdpfn.online.lookahead import VectorPlan
from mdpfn.online.masks import RecentMasks
from mdpfn.online.one_thread import on_one_thread
from mdpfn.online.selection import Lived, Selection
from mdpfn.online.snapshot import Snapshot
from mdpfn.online.underway import Underway
from mdpfn.planners.node_values import NodeModel
from mdpfn.planners.policies import softmax

MOST_UNDER_WAY = 256  # episodes at the same time
TIE = 1e-9  # of a value: less does not tell actions apart


class VectorLearner:
    """Acts and learns with vectors for states; no training, one set of constants.

    It explores only while it is lost, that is, while nothing that it saw tells good from bad; until there is a plan it
    acts at random. It plans when its data has grown, and keeps a plan that lives as well as it believes possible.
    """

    def __init__(
        self,
        evidence: SmoothedEvidence,
        *,
        explore: bool = True,
        replan_every: int | None = None,
    ) -> None:
        self.evidence, self.rng, self.config = evidence, evidence.rng, evidence.config
        self.explore, self.replan_every = explore, replan_every
        self.clock, self.selection = Clock(), Selection(evidence.config)
        self.under_way: list[Underway] = []
        self._masks = RecentMasks()

    def allow(self, x: Floats, mask: tuple[bool, ...]) -> None:
        """Take note that only these actions exist in x."""
        self._masks.note(x, mask)

    def before(self, transition: Transition | None = None) -> Snapshot:
        """What `take_back` needs to undo a transition that is about to be observed."""
        return Snapshot(self)

    def take_back(self, before: Snapshot) -> None:
        """Undo a transition, even if it was learned only in part."""
        before.restore()

    def act(self, x: Floats) -> int:
        """The action to take now, exploring."""
        mask = self._masks.of(x)
        lived = self._acting
        if lived is None:
            return int(self.rng.choice(np.flatnonzero(np.ones(len(self.evidence.codes)) if mask is None else mask)))
        explores = self._explores
        q = lived.plan.action_values(x[None], self.config, curious=lived.plan.is_lost and explores)
        if lived.plan.is_lost and not q.any():  # nothing unknown follows
            q = lived.plan.action_values(x[None], self.config)
        if explores and lived.plan.model.ends_at_once:
            q = lived.plan.action_values(x[None], self.config) + self._doubt(x)
        q = q + TIE * self.rng.random(q.shape) * np.maximum(1, np.abs(q))
        return int(_masked(q, mask).argmax())

    def observe(self, transition: Transition) -> Novelty:
        """Learn from one transition, and plan again if enough is new."""
        x, y = np.asarray(transition.state), np.asarray(transition.next_state)
        novelty = self.evidence.add(transition)
        done, lived = bool(transition.ends_episode), self._acting
        episode = self._episode(x)
        episode.step(float(transition.reward), y, self.config.discount)
        self.clock.advance(0, ends_episode=done, replan_trigger=novelty.replan_trigger)
        if done:
            self.under_way.remove(episode)
            if lived is not None:
                self.selection.lived(lived, episode, cut_off=not transition.terminated)
        if self._plans_again(done):
            self.replan()
        return novelty

    def _doubt(self, x: Floats) -> Floats:
        """(actions,) how much more an action may pay than is believed, where every step ends an episode."""
        evidence = self.evidence
        assert evidence.model is not None
        n, spread, noise = evidence.n_near(x), evidence.memory.batch().reward.std(), evidence.model.reward_noise
        return np.asarray(spread / (1 + n) + noise * np.sqrt(np.log(1 + evidence.n_transitions) / (1 + n)))

    @property
    def _explores(self) -> bool:
        """Whether something may be tried: not where nothing that is learned can be used later."""
        return self.explore and not self.clock.is_last_episode

    @property
    def _acting(self) -> Lived | None:
        """The plan to act by."""
        return self.selection.acting if self._explores else self.selection.trusted

    def _episode(self, x: Floats) -> Underway:
        """The episode that x belongs to, a new one if none ended there."""
        for episode in self.under_way:
            if np.array_equal(episode.last, x):
                return episode
        self.evidence.add_start(x)
        self.under_way.append(Underway.starting(x))
        del self.under_way[:-MOST_UNDER_WAY]
        return self.under_way[-1]

    def _plans_again(self, done: bool) -> bool:
        config, n = self.config, self.evidence.n_transitions
        grow, warm = (config.grow_end, config.warm // 2) if done else (config.grow_mid, config.warm)
        if n < warm:
            return False
        if self.replan_every is not None and self.clock.steps_since_plan >= self.replan_every:
            return True
        if self.selection.proven:  # only much more data may say otherwise
            return done and not self.selection.perfect and self.evidence.growth >= config.challenge
        if self.selection.confirmed and not done:  # it lives as well as is believed possible
            return False
        return self.evidence.growth >= 1 + grow

    def begin(self, episodes: int) -> None:
        """Prepare for a run of this many episodes."""
        self.under_way.clear()
        self.clock.step, self.clock.budget = 0, self.clock.episode + episodes

    def plan(self) -> VectorPlan | None:
        """The plan to exploit by, None before the first."""
        lived = self.selection.trusted
        return None if lived is None else lived.plan

    def action_values(self, x: Floats) -> Floats:
        """(n, actions) what each action is worth in observations (n, d); 0 before the first plan."""
        plan = self.plan()
        return np.zeros((len(x), len(self.evidence.codes))) if plan is None else plan.action_values(x, self.config)

    def greedy(self, x: Floats, mask: Bools | None = None) -> Ints:
        """(n,) the best known actions in observations (n, d), of those that a mask (n, actions) allows."""
        return np.asarray(_masked(self.action_values(x), mask).argmax(1))

    def policy(self, x: Floats, mask: Bools | None = None) -> Floats:
        """(n, actions) softmax(Q / τ), τ being what plans may differ by and still count as equal."""
        q, plan = _masked(self.action_values(x), mask), self.plan()
        tau = self.config.tolerance_lived * (plan.value_range if plan is not None else 1.0)
        return softmax(q / max(tau, 1e-300))

    @on_one_thread
    def replan(self) -> None:
        """Make a plan from everything that is known."""
        evidence, config, newest = self.evidence, self.config, self.selection.newest
        table = evidence.table()
        model, nodes, data = evidence.model, evidence.nodes, evidence.memory.batch()
        assert model is not None
        assert nodes is not None
        floor = self._floor()
        initial = None
        if newest is not None:
            old = newest.plan
            initial = old.value[old.nodes.tree.query(nodes.states / old.nodes.scale)[1]]
        node_model = NodeModel.of(table, nodes.unknown, config)
        value, hope = node_model.feared_and_hoped(floor, initial)
        index, weight = nodes.locate(np.array(evidence.memory.starts))
        start_value = float((weight * hope[index]).sum(1).mean())
        bound = attainable(data, config)
        lost = model.potential is None and is_lost(hope, start_value, bound, reward_range(data))
        curious = node_model.curious() if lost else None
        plan = VectorPlan(
            model=model,
            nodes=nodes,
            value=value,
            slope=nodes.slopes(value),
            hope=hope,
            hope_slope=nodes.slopes(hope),
            floor=floor,
            bound=bound,
            curious=curious,
            curious_slope=None if curious is None else nodes.slopes(curious),
        )
        if model.ends_at_once:  # a life of one step says nothing about a plan: the newest knows most
            self.selection = Selection(config)
        self.selection.propose(plan, evidence.n_transitions)
        self.clock.planned()

    def _floor(self) -> float:
        """The worst that is feared: the lowest reward for ever, or the worst end."""
        data, model = self.evidence.memory.batch(), self.evidence.model
        going = data.reward[~data.ended] if (~data.ended).any() else data.reward
        worst_end = min(float(data.reward[data.ended].min()), 0.0) if data.ended.any() else np.inf
        if model is not None and model.potential is not None:
            return (worst_end if np.isfinite(worst_end) else 0.0) + model.potential.low
        return min(float(going.min()) / (1 - self.config.discount), worst_end)


def _masked(q: Floats, mask: Bools | tuple[bool, ...] | None) -> Floats:
    """Values, −∞ where a mask does not allow an action."""
    return q if mask is None else np.where(mask, q, -np.inf)
