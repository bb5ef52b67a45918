"""What one action does: rules for each of its outcomes, and their predictions for states where it was not tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, offsets_of, sums_by
from mdpfn.evidence.factored.config import FactoredConfig
from mdpfn.evidence.factored.factors import Factors, keys_of
from mdpfn.evidence.factored.means import MeanRule, find_mean_rule
from mdpfn.evidence.factored.noisy import NoisyRule, Outcomes, find_noisy_rule
from mdpfn.evidence.factored.rules import Contexts, Rule, find_rule


@dataclass(frozen=True, eq=False)
class Tried:
    """The observations of one action: its visited pairs (rows), and an entry for every successor of each."""

    codes: Ints  # (rows, d) factors of the states
    state: Ints  # (rows,)
    visits: Floats  # (rows,)
    reward: Floats  # (rows,) mean
    variance: Floats  # (rows,) of single rewards; 0 where they are all the same
    row: Ints  # (entries,)
    successor: Ints
    after: Ints  # (entries, d) factors of the successors
    count: Floats
    ended: Floats
    existing: tuple[Ints, Bools]  # states whose masks are known, and whether the action exists there


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted pairs of one action, and an entry for every predicted successor of each."""

    state: Ints
    visits: Floats  # that they count
    reward: Floats
    row: Ints  # (entries,)
    successor: Ints
    share: Floats  # of these visits
    ended: Floats  # of that share

    def of_pairs(self, kept: Bools) -> Predictions:
        """The predictions of the pairs in a mask (n,)."""
        place, stays = np.cumsum(kept) - 1, kept[self.row]
        pairs = self.state[kept], self.visits[kept], self.reward[kept]
        return Predictions(*pairs, place[self.row[stays]], self.successor[stays], self.share[stays], self.ended[stays])


@dataclass
class Effects:
    """Rules for all outcomes of an action: the new value of factors 0 … d − 1, and as number d whether it ends."""

    factors: Factors
    config: FactoredConfig
    certain: dict[int, tuple[Rule, list[Ints]]] = field(default_factory=dict)  # by outcome, with values by kind
    noisy: list[tuple[tuple[int, ...], NoisyRule, Ints]] = field(default_factory=list)  # outcomes, rule, values
    reward: MeanRule | tuple[Rule, Floats] | None = None  # a rule has rewards by category
    exists: Rule | None = None
    never_moved: bool = True
    tried: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    @classmethod
    def of(cls, tried: Tried, factors: Factors, config: FactoredConfig) -> Effects | None:
        """The rules that explain the observations; None where some outcome has no rule."""
        found = cls(factors, config, tried=tried.codes)
        contexts = Contexts(tried.codes, factors.sizes)
        moved = (tried.successor != tried.state[tried.row]) | (tried.ended > 0)
        found.never_moved = not moved.any()
        told = found._find_outcomes(tried, contexts) and found._find_reward(tried, contexts) and found._find_mask(tried)
        return found if told else None

    def _find_outcomes(self, tried: Tried, contexts: Contexts) -> bool:
        """Rules for the factors and the end, certain where they never differed in a pair; False where one has none."""
        d, n_rows, row = len(self.factors.sizes), len(tried.state), tried.row
        noisy = []
        first = np.searchsorted(row, np.arange(n_rows))
        before = np.append(tried.codes, np.zeros((n_rows, 1), dtype=np.int64), axis=1)
        for j in range(d):
            if (tried.after[:, j] == tried.after[first[row], j]).all():
                after = tried.after[first, j]
                kinds = [np.unique(value, return_inverse=True) for value in (after - before[:, j], after)]
                if not self._certain(j, kinds, contexts):
                    return False
            else:
                noisy.append(j)
        ended = tried.ended / tried.count
        if ((ended == ended[first[row]]) & ((ended == 0) | (ended == 1))).all():
            if not self._certain(d, [np.unique((ended[first] > 0).astype(np.int64), return_inverse=True)], contexts):
                return False
        else:
            noisy.append(d)
        return not noisy or self._find_noisy(noisy, tried, before, contexts)

    def _certain(self, outcome: int, kinds: list[tuple[Ints, Ints]], contexts: Contexts) -> bool:
        rule = find_rule([category for _, category in kinds], contexts, self.config)
        if rule is not None:
            self.certain[outcome] = rule, [values for values, _ in kinds]
        return rule is not None

    def _find_noisy(self, noisy: list[int], tried: Tried, before: Ints, contexts: Contexts) -> bool:
        """Rules for noisy outcomes: one for each, or one for all together if that is more likely."""
        entry, going = np.arange(len(tried.row)), tried.count - tried.ended
        entry, end = np.concatenate([entry, entry]), np.repeat([0, 1], len(entry))
        count = np.concatenate([going, tried.ended])
        entry, end, count = entry[count > 0], end[count > 0], count[count > 0]
        row = tried.row[entry]
        after = np.append(tried.after[entry], end[:, None], axis=1)[:, noisy]
        kinds = [after - before[row][:, noisy], after]

        def rule_of(columns: list[int]) -> tuple[NoisyRule, Ints] | None:
            outcomes = [Outcomes.of(row, kind[:, columns], count) for kind in kinds]
            rule = find_noisy_rule(outcomes, contexts, self.config)
            return None if rule is None else (rule, outcomes[rule.kind].values)

        together = rule_of(list(range(len(noisy))))
        alone = [rule_of([i]) for i in range(len(noisy))] if len(noisy) > 1 else [None]
        each = [one for one in alone if one is not None]
        if len(each) == len(noisy) and (together is None or sum(r.score for r, _ in each) > together[0].score):
            self.noisy = [((j,), *one) for j, one in zip(noisy, each, strict=True)]
        elif together is not None:
            self.noisy = [(tuple(noisy), *together)]
        return bool(self.noisy)

    def _find_reward(self, tried: Tried, contexts: Contexts) -> bool:
        variance = tried.variance
        if not variance.any():
            scale = max(float(np.abs(tried.reward).max()), 1e-300)
            values, category = np.unique(np.round(tried.reward / scale, 9), return_inverse=True)
            rule = find_rule([category], contexts, self.config)
            if rule is not None and not rule.partial:
                self.reward = rule, values * scale
                return True
        again = tried.visits >= 2
        free = (tried.visits[again] - 1).sum()
        noise = float((variance * tried.visits)[again].sum() / free) if free > 0 else 0.0
        mean = find_mean_rule(tried.reward, tried.visits, np.full(len(tried.reward), noise), contexts, self.config)
        if mean.trust >= self.config.least_trust:
            self.reward = mean
        elif not variance.any() and rule is not None:
            self.reward = rule, values * scale
        return self.reward is not None

    def _find_mask(self, tried: Tried) -> bool:
        state, exists = tried.existing
        if not len(state) or exists.all():
            return True
        contexts = Contexts(self.factors.codes[state], self.factors.sizes)
        self.exists = find_rule([exists.astype(np.int64)], contexts, self.config)
        return self.exists is not None

    def predict(self, state: Ints) -> Predictions:
        """Predictions for those of these states for which all rules have one."""
        config, factors, d = self.config, self.factors, len(self.factors.sizes)
        codes = factors.codes[state]
        told, trust, most = (
            np.ones(len(state), dtype=bool),
            np.ones(len(state)),
            np.full(len(state), config.most_visits),
        )
        after = np.zeros((len(state), d + 1), dtype=np.int64)
        for outcome, (rule, values) in self.certain.items():
            shift = codes[:, outcome] if outcome < d else np.zeros(len(state), dtype=np.int64)
            seen, after[:, outcome], sure = rule.predict(codes, factors.sizes, values, shift)
            told, trust = told & seen, np.minimum(trust, sure)
        n_ways, places = np.ones(len(state)), []
        for number, (_, noisy, _) in enumerate(self.noisy):
            place = noisy.place(codes, factors.sizes)
            places.append(place)
            n_ways *= (noisy.count > 0).sum(axis=1)[place]
            visits = np.minimum(noisy.count.sum(axis=1)[place] / 2, config.most_noisy_visits)
            told, trust = told & (place >= 0), np.minimum(trust, noisy.trust)
            most = visits if number == 0 else np.minimum(most, visits)
        reward = np.zeros(len(state))
        if isinstance(self.reward, MeanRule):
            seen, reward = self.reward.predict(codes, factors.sizes)
            told, trust = told & seen, np.minimum(trust, self.reward.trust)
        elif self.reward is not None:
            rule, rewards = self.reward
            seen, which, sure = rule.predict(codes, factors.sizes, [np.arange(len(rewards))], 0)
            reward = rewards[which]
            told, trust = told & seen, np.minimum(trust, sure)
        if self.exists is not None:
            seen, exists, sure = self.exists.predict(codes, factors.sizes, [np.arange(2)], 0)
            told &= seen & (exists == 1) & (sure >= config.least_trust)
        told &= (trust >= config.least_trust) & (n_ways <= config.most_successors)
        return self._expanded(np.flatnonzero(told), state, after, places, trust, most, reward)

    def _expanded(
        self, told: Ints, state: Ints, after: Ints, places: list[Ints], trust: Floats, most: Floats, reward: Floats
    ) -> Predictions:
        """An entry for every combination of outcomes; pairs that would lead to no known state are left out."""
        config, factors, d = self.config, self.factors, len(self.factors.sizes)
        row, value, share = told, after[told], np.ones(len(told))
        before = np.append(factors.codes[state], np.zeros((len(state), 1), dtype=np.int64), axis=1)
        for (outcomes, noisy, values), place in zip(self.noisy, places, strict=True):
            context, category = np.nonzero(noisy.count)
            start = offsets_of(np.bincount(context, minlength=len(noisy.keys)))
            many = np.diff(start)[place[row]]
            copy = np.repeat(np.arange(len(row)), many)
            entry = np.arange(len(copy)) - offsets_of(many)[copy] + start[place[row[copy]]]
            row, value, share = row[copy], value[copy], share[copy]
            share = share * noisy.count[context, category][entry] / noisy.count.sum(axis=1)[context[entry]]
            shift = before[row][:, list(outcomes)] if noisy.kind == 0 else 0
            value[:, list(outcomes)] = values[category[entry]] + shift
        successor, ended = factors.states_of(value[:, :d]), value[:, d] > 0
        kept = np.zeros(len(state), dtype=bool)
        kept[told] = True
        kept[row[successor < 0]] = False
        idle = kept.copy()
        idle[row[(successor != state[row]) | ended]] = False
        if idle.any():
            kept &= ~idle | self._covered(state)
            if self.never_moved:
                trust = np.where(idle, np.minimum(trust, config.idle_trust), trust)
        visits = np.minimum(config.even_visits * (trust / (1 - trust)) ** (1 / config.odds_exponent), most)
        stays = kept[row]
        place = np.cumsum(kept) - 1
        n_states = len(factors.codes)
        key, where = np.unique(place[row[stays]] * n_states + successor[stays], return_inverse=True)
        shares = sums_by(where, share[stays], len(key))
        ends = sums_by(where, (share * ended)[stays], len(key)) / np.maximum(shares, 1e-300)
        return Predictions(state[kept], visits[kept], reward[kept], key // n_states, key % n_states, shares, ends)

    def _covered(self, state: Ints) -> Bools:
        """(n,) whether every combination of a few factors of a state was tried with this action."""
        sizes, d = self.factors.sizes, len(self.factors.sizes)
        strength = min(self.config.idle_strength, d - 1)
        rules = [rule for rule, _ in self.certain.values()]
        largest = [len(one.subset) for rule in rules for one in rule.hypotheses]
        largest += [len(rule.subset) for _, rule, _ in self.noisy]
        seen = np.ones(len(state), dtype=bool)
        if max(largest) >= strength:
            return seen
        codes = self.factors.codes[state]
        for subset in combinations(range(d), strength):
            seen &= np.isin(keys_of(codes, sizes, subset), keys_of(self.tried, sizes, subset))
        return seen
