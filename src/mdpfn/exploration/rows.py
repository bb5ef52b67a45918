"""What was tried where and where it led, over the states that were left: what both plans of an explorer read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, offsets_of
from mdpfn.evidence import PairTable
from mdpfn.exploration.undoing import undone
from mdpfn.model.choices import Choices

NOISE = 1e-9  # relative variance of rewards below which it is rounding


@dataclass(frozen=True, eq=False)
class Outline:
    """What was tried where and where it led, without any numbers: most plans have that of the plan before.

    Tokens are the *known* states, those left at least once, in their order, and last one for all others.
    """

    table: PairTable  # of which it is the outline
    ends: Bools  # (entries,) whether an episode ended there
    known: Ints  # (known,) ids
    first: Ints  # (known,) the row of the first tried action
    token: Ints  # (rows,) of the state
    action: Ints  # (rows,)
    row: Ints  # (entries,)
    start: Ints  # (rows,) the first entry
    following: Ints  # (entries,) token
    is_known: Bools  # (entries,) whether what follows is
    is_terminal: Bools  # (entries,) whether an episode ended in what follows, and none went on from there
    untried: Bools  # (known + 1, A) whether an action exists and was not tried; in memory one action after the other, …
    tried: Bools  # (known + 1, A) … for whatever goes over the actions of all states
    all_seen: bool  # whether every state was

    @classmethod
    def of(cls, z: PairTable) -> Outline:
        """The outline of a table of one MDP."""
        n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
        first = np.flatnonzero(np.append(True, z.state[1:] != z.state[:-1])) if len(z.pair) else z.pair
        known = z.state[first]
        n = len(known)
        token = np.full(n_states, n)
        token[known] = np.arange(n)
        seen, terminal = token < n, np.zeros(n_states, dtype=bool)
        seen[z.successor] = True
        ends = z.n_terminated > 0
        terminal[z.successor[ends]] = True
        terminal[known] = False
        state, following = token[z.state], token[z.successor]
        tried = np.zeros((n_actions, n + 1), dtype=bool).T
        tried[state, z.action] = True
        untried = ~tried
        if len(z.forbidden):
            masked, action = np.divmod(z.forbidden, n_actions)
            mine = token[masked] < n
            untried[token[masked[mine]], action[mine]] = False
        return cls(
            table=z,
            ends=ends,
            known=known,
            first=first,
            token=state,
            action=z.action,
            row=z.transition_row,
            start=offsets_of(z.n_successors)[:-1],
            following=following,
            is_known=following < n,
            is_terminal=terminal[z.successor],
            untried=untried,
            tried=tried,
            all_seen=bool(seen.all()),
        )

    def is_of(self, z: PairTable) -> bool:
        """Whether it is the outline of this table too: rows that are the same are the same object (`patching`)."""
        names = "pair", "successor", "forbidden"
        same = all(getattr(z, name) is getattr(self.table, name) for name in names)
        return same and z.n_states[0] == self.table.n_states[0] and np.array_equal(z.n_terminated > 0, self.ends)


@dataclass(frozen=True, eq=False)
class Rows:
    """The visited pairs of one MDP and P̂ of what follows them, over state tokens.

    Where episodes end nothing follows, so rows of P̂ sum to the share of transitions after which there is something to
    earn.
    """

    outline: Outline
    n_visits: Floats  # (rows,)
    reward: Floats  # (rows,) mean
    duration: Floats  # (rows,)
    noisy: Bools  # (rows,) whether a pair was seen to lead to more than one place, or to pay more than one reward
    probability: Floats  # (entries,) P̂
    leads_back: Floats  # (known + 1, A) how surely an action leads back to where its state was entered from

    @classmethod
    def of(cls, z: PairTable, last: Rows | None = None) -> Rows:
        """Rows of a table; what has not changed is taken from the last ones."""
        outline = last.outline if last is not None and last.outline.is_of(z) else Outline.of(z)
        is_known = outline.is_known
        reward, probability = z.mean_reward, z.transition_count / z.n_visits[outline.row]
        variance = z.reward_square_sum / z.n_visits - reward**2
        noisy: Bools = (z.n_successors > 1) | (variance > NOISE * (variance + reward**2))
        if outline.ends.any():
            goes_on = np.where(is_known, z.going_on, ~outline.is_terminal)
            probability = probability * goes_on
            noisy[outline.row[is_known & (goes_on > 0) & (goes_on < 1)]] = True
        if last is not None and last.outline is outline and np.array_equal(last.probability, probability):
            leads_back = last.leads_back
        else:
            leads_back = _undone(outline, is_known & (probability > 0), probability)
        return cls(outline, z.n_visits, reward, z.duration, noisy, probability, leads_back)

    @property
    def known(self) -> Ints:
        """(known,) ids of the states that were left at least once."""
        return self.outline.known

    @property
    def token(self) -> Ints:
        """(rows,) the place of its state among those."""
        return self.outline.token

    @property
    def action(self) -> Ints:
        """(rows,)."""
        return self.outline.action

    @property
    def untried(self) -> Bools:
        """(known + 1, A) whether an action exists and was not tried; the last row is any other state's."""
        return self.outline.untried

    @property
    def n_actions(self) -> int:
        """How many actions a state has."""
        return int(self.untried.shape[1])

    @property
    def all_seen(self) -> bool:
        """Whether there is no state that was never seen."""
        return self.outline.all_seen

    def choices(self, gain: Floats, weight: Floats, floor: Floats, outside: float | None) -> Choices:
        """What may be chosen in every known state, for gains and weights (rows,) and floors (known,)."""
        outline = self.outline
        entries = outline.start, outline.following, self.probability
        return Choices(outline.first, outline.token, *entries, gain, weight, floor, outside)


def _undone(outline: Outline, moves: Bools, probability: Floats) -> Floats:
    """(known + 1, A) how surely an action leads back, from these of the entries that lead to another state."""
    moves = moves & (outline.following != outline.token[outline.row])
    row = outline.row[moves]
    start, action = outline.token[row], outline.action[row]
    return undone(start, action, outline.following[moves], probability[moves], outline.tried)
