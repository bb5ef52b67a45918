"""Slip: what actions do by mistake they do everywhere alike, so that all states together tell it.

On ice left is up now and then, wherever one is. Every action has an effect of its own; where that leads depends on the
state, and now and then the action has the effect of another one, or none:

    P(s' | s, a) = Σ_b M(a, b) 1[s' = d(s, b)]

M (A, A + 1) is the same in all states; its last effect is to stay. d(s, b) is a single state: believed to be s' with
q(s, b, s'), or one that was not seen yet. M and q are fitted in turns (variational expectation maximization, annealed:
at first the data counts for less), and two effects of a state are exchanged where that makes the data more likely.

Whether it is like that at all is told by predictions of each transition without it (leave one out): what P counts
beside n visits of a pair, in visits, is what predicts best, and nothing if that is not clearly better than without P.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.evidence import PairTable
from mdpfn.planners.arrival import arrival_rewards, roughly_on_arrival, variances

VISITS: Floats = 2.0 ** np.arange(-1.0, 7.0)  # that P may count, and that equal shares may where there is no slip
MOST_STATES = 300  # that were reached, up to which it is asked what arriving there pays: least squares take long
LEVELLED = 0.01  # share of equal shares in predictions: nothing is impossible
EXPLAINED = 0.75  # of the variance of rewards within pairs, that arriving must explain
SAME = 1e-6  # rewards whose relative difference is smaller are the same


@dataclass(frozen=True)
class SlipConfig:
    """How slip is fitted, and when it is believed."""

    least_evidence: float = 40.0  # by which the log-likelihood must be higher than without
    most_work: int = 300_000  # |transitions of states| · |A|²: more would take longer than to explore
    heats: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0)  # what data counts, by turn
    exchanging: float = 0.6  # from this heat on effects of a state are exchanged, …
    most_exchanged: int = 8  # … if there are no more than so many
    own_effect: float = 0.3  # of an action, at first, beside equal shares of all
    own_visits: float = 1.0  # in which an action had its own effect, and …
    other_visits: float = 1.0  # … any other, but to stay, before anything was seen
    unseen: float = 3.0  # how probable it is that an effect leads where nothing led yet, beside every seen successor
    rounding: float = 1e-3  # probability of what is not explained


@dataclass(frozen=True, eq=False)
class Slip:
    """What is known of where actions lead, of the states of a table; nothing where there is no common slip."""

    state: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # (places,) ascending, …
    successor: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # … and where some action led from it
    share: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (places, A) P(s' | s, a)
    reward: Floats = field(default_factory=lambda: np.zeros(0))  # (places,) of arriving; NaN if that tells nothing
    visits: float = 0.0  # what P counts beside the visits of a pair

    @classmethod
    def of(cls, z: PairTable, observed: PairTable | None = None, config: SlipConfig = SlipConfig()) -> Slip:  # noqa: B008
        """The slip of one MDP by its table, which may be pooled; what was observed tells what rewards depend on."""
        n_actions = int(z.n_actions[0])
        if n_actions < 2 or not (z.n_successors > 1).any() or (z.duration != 1).any():
            return cls()
        places = _Places.of(z, config.most_work / n_actions**2)
        if places is None:
            return cls()
        left_out = _LeftOut.of(places)
        without = left_out.likelihoods(left_out.equal).max()
        if without > -config.least_evidence:  # nothing is likelier than 1: slip cannot be believed, so it is not fitted
            return cls()
        fit = _Fit(places, config)
        by_visits = left_out.likelihoods(left_out.mixed(fit.left_out()))
        if by_visits.max() < without + config.least_evidence:
            return cls()
        paid = _arrival(z if observed is None else observed)
        if paid is None:
            return cls()
        visits = float(VISITS[by_visits.argmax()])
        return cls(places.state, places.successor, fit.share, paid[places.successor], visits)


@dataclass(frozen=True, eq=False)
class _Places:
    """The distinct transitions between states of one MDP, whatever the action, and how often each action made them."""

    state: Ints  # (places,)
    successor: Ints  # (places,)
    first: Ints  # (states,) the first place of each state that was left
    owner: Ints  # (places,) the number of the state among those
    count: Floats  # (places, A)

    @classmethod
    def of(cls, z: PairTable, most: float = np.inf) -> _Places | None:
        """The places of a table; None if there are more than that."""
        n_states, row = int(z.n_states[0]), z.transition_row
        key, place = np.unique(z.state[row] * n_states + z.successor, return_inverse=True)
        if len(key) > most:
            return None
        state = key // n_states
        begins = np.append(True, state[1:] != state[:-1])
        count = np.zeros((len(key), int(z.n_actions[0])))
        count[place, z.action[row]] = z.transition_count
        return cls(state, key % n_states, np.flatnonzero(begins), np.cumsum(begins) - 1, count)

    def sums(self, values: Floats) -> Floats:
        """(states, …) sums over the places of each state."""
        return np.asarray(np.add.reduceat(values, self.first, axis=0))


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """The transitions of pairs that were visited again, each to be predicted from all others."""

    n: Floats  # (told,) how often each was seen
    others: Floats  # (told,) the other visits of its pair
    equal: Floats  # (told,) equal shares of all successors of its state, and one that was not seen
    where: tuple[Ints, Ints]  # (told,) its place and action

    @classmethod
    def of(cls, places: _Places) -> _LeftOut:
        """Those of some places."""
        count, owner = places.count, places.owner
        n_visits = places.sums(count)[owner]
        place, action = np.nonzero((count > 0) & (n_visits > 1))
        n_places = np.bincount(owner)[owner]
        return cls(count[place, action], n_visits[place, action] - 1, 1 / (n_places[place] + 1), (place, action))

    def mixed(self, share: Floats) -> Floats:
        """(told,) P(s' | s, a) of (places, A), mixed with a little of equal shares."""
        return np.asarray((1 - LEVELLED) * share[self.where] + LEVELLED * self.equal)

    def likelihoods(self, share: Floats) -> Floats:
        """(visits,) log-likelihood if these shares (told,) count that many visits beside those of the pair."""
        before = np.maximum(self.n - 1, 0.0)
        predicted = (before + VISITS[:, None] * share) / (self.others + VISITS[:, None])
        return np.asarray((self.n * np.log(predicted)).sum(axis=1))


class _Fit:
    """M, q and P = q Mᵀ of one MDP, fitted to what was seen."""

    def __init__(self, places: _Places, config: SlipConfig) -> None:
        self.places, self.config = places, config
        n_actions = places.count.shape[1]
        self.effects = range(n_actions)
        self.mixing = np.full((n_actions, n_actions + 1), (1 - config.own_effect) / (n_actions + 1))  # M
        self.mixing[self.effects, self.effects] += config.own_effect
        self.belief = np.zeros((len(places.state), n_actions + 1))  # q
        self.belief[:, :-1] = places.count / (places.sums(places.count) + config.unseen)[places.owner]
        self.belief[:, -1] = places.state == places.successor
        self.share = self.belief @ self.mixing.T  # P
        for heat in config.heats:
            self._believe(heat)
            if heat >= config.exchanging and n_actions <= config.most_exchanged:
                self._exchange()
            self._mix()

    def _believe(self, heat: float) -> None:
        """Renew q, one effect after the other, and P with it."""
        for effect in self.effects:
            without, more = self._without(effect)
            gain = heat * (self.places.count * more).sum(axis=1)
            weight, total = self._weights(gain)
            self.belief[:, effect] = weight / total
            self.share = without + self.belief[:, effect, None] * self.mixing[:, effect]

    def _without(self, effect: int) -> tuple[Floats, Floats]:
        """(places, A) P without an effect, and by how much log P grows where the effect leads."""
        without = self.share - self.belief[:, effect, None] * self.mixing[:, effect]
        floor = without + self.config.rounding
        return without, np.log1p(self.mixing[:, effect] / floor)

    def _weights(self, gain: Floats) -> tuple[Floats, Floats]:
        """(places,) weights of places by gains in log-likelihood, and what they sum up to with an unseen one."""
        first, owner = self.places.first, self.places.owner
        most = np.maximum(np.maximum.reduceat(gain, first), 0.0)
        weight = np.exp(gain - most[owner])
        return weight, (self.places.sums(weight) + self.config.unseen * np.exp(-most))[owner]

    def _exchange(self) -> None:
        """Exchange where two effects of a state lead, in all states in which that explains what was seen better."""
        likelihood = self._likelihood(self.share)
        for one, other in combinations(self.effects, 2):
            moved = (self.belief[:, other] - self.belief[:, one])[:, None]
            share = self.share + moved * (self.mixing[:, one] - self.mixing[:, other])
            exchanged = self._likelihood(share)
            better = exchanged > likelihood + self.config.rounding
            if better.any():
                place = better[self.places.owner]
                both = np.array([one, other])
                self.belief[np.ix_(place, both)] = self.belief[np.ix_(place, both[::-1])]
                self.share[place] = share[place]
                likelihood = np.where(better, exchanged, likelihood)

    def _likelihood(self, share: Floats) -> Floats:
        """(states,) log-likelihood of what was seen."""
        return self.places.sums((self.places.count * np.log(share + self.config.rounding)).sum(axis=1))

    def _mix(self) -> None:
        """Renew M, and P with it: how often each action had each effect, by q and M so far."""
        config = self.config
        explained = self.places.count / (self.share + config.rounding)
        often = self.mixing * (explained.T @ self.belief)
        often[:, :-1] += config.other_visits / often.shape[1]
        often[self.effects, self.effects] += config.own_visits
        self.mixing = often / often.sum(axis=1, keepdims=True)
        self.share = self.belief @ self.mixing.T

    def left_out(self) -> Floats:
        """(places, A) P(s' | s, a) as it is believed where one such transition is left out."""
        found = self.mixing[:, -1] * self.belief[:, -1:]
        for effect in self.effects:
            _, more = self._without(effect)
            weight, total = self._weights((self.places.count * more).sum(axis=1))
            less = weight[:, None] * np.exp(-more)
            found = found + self.mixing[:, effect] * less / (total[:, None] - weight[:, None] + less)
        return np.asarray(found)


def _arrival(z: PairTable) -> Floats | None:
    """(S,) what arriving in a state pays, or NaN where a reward belongs to its pair.

    None where the rewards of a pair vary and arriving does not say why: the mean of few visits is then that of where
    they led (much was sold, little is left), and would go with places that slip foretells beside them.
    """
    n_states, size = int(z.n_states[0]), np.abs(z.mean_reward).max(initial=0.0)
    belongs_to_pair, varies = np.full(n_states, np.nan), variances(z)[1]
    if not varies.any() and np.ptp(z.mean_reward) <= SAME * size:  # always the same
        return np.full(n_states, z.mean_reward[0])
    if len(np.unique(z.successor)) > MOST_STATES:
        return belongs_to_pair
    if varies.any():
        paid, share = roughly_on_arrival(z)
        return paid if share >= EXPLAINED else None
    paid, _ = arrival_rewards(z)
    mean = np.bincount(z.transition_row, z.successor_probs * paid[z.successor], len(z.pair))
    return paid if (np.abs(mean - z.mean_reward) <= SAME * size).all() else belongs_to_pair
