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
    following: Ints  # (entries,) token
    is_terminal: Bools  # (entries,) whether an episode ended in what follows, and none went on from there
    untried: Bools  # (known + 1, A) whether an action exists and was not tried
    tried: Bools  # (known + 1, A)
    all_seen: bool  # whether every state was

    @classmethod
    def of(cls, z: PairTable) -> Outline:
        """The outline of a table of one MDP."""
        n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
        first = np.flatnonzero(np.diff(z.state, prepend=-1))
        known = z.state[first]
        n = len(known)
        token = np.full(n_states, n)
        token[known] = np.arange(n)
        seen, terminal = token < n, np.zeros(n_states, dtype=bool)
        seen[z.successor] = True
        ends = z.n_terminated > 0
        terminal[z.successor[ends]] = True
        terminal[known] = False
        tried = np.zeros((n + 1, n_actions), dtype=bool)
        tried[token[z.state], z.action] = True
        untried = ~tried
        masked = token[z.forbidden // n_actions]
        untried[masked[masked < n], z.forbidden[masked < n] % n_actions] = False
        return cls(
            table=z,
            ends=ends,
            known=known,
            first=first,
            token=token[z.state],
            action=z.action,
            row=z.transition_row,
            following=token[z.successor],
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


class Rows:
    """The visited pairs of one MDP and P̂ of what follows them, over state tokens.

    Where episodes end nothing follows, so rows of P̂ sum to the share of transitions after which there is something to
    earn.
    """

    def __init__(self, z: PairTable, last: Rows | None = None) -> None:
        """Rows of a table; what has not changed is taken from the last ones."""
        outline = last.outline if last is not None and last.outline.is_of(z) else Outline.of(z)
        self.outline: Outline = outline
        self.n_actions, self.all_seen = int(z.n_actions[0]), outline.all_seen
        self.known, self.token, self.action = outline.known, outline.token, outline.action
        self.untried = outline.untried
        self.n_visits, self.reward, self.duration = z.n_visits, z.mean_reward, z.duration
        is_known = outline.following < len(self.known)
        probability = z.transition_count / z.n_visits[outline.row]
        goes_on = np.where(is_known, z.going_on, ~outline.is_terminal) if outline.ends.any() else None
        if goes_on is not None:
            probability = probability * goes_on
        variance = z.reward_square_sum / z.n_visits - self.reward**2
        self.noisy: Bools = (z.n_successors > 1) | (variance > NOISE * (variance + self.reward**2))
        if goes_on is not None:
            self.noisy[outline.row[is_known & (goes_on > 0) & (goes_on < 1)]] = True
        self.start, self.probability = offsets_of(z.n_successors)[:-1], probability
        if last is not None and last.outline is outline and np.array_equal(last.probability, probability):
            self.leads_back: Floats = last.leads_back
        else:
            self.leads_back = self._undone(is_known)

    def _undone(self, is_known: Bools) -> Floats:
        """(known + 1, A) how surely an action leads back to where its state was entered from."""
        outline = self.outline
        moves = is_known & (outline.following != self.token[outline.row]) & (self.probability > 0)
        row = outline.row[moves]
        following, probability = outline.following[moves], self.probability[moves]
        return undone(self.token[row], self.action[row], following, probability, outline.tried)

    def choices(self, gain: Floats, weight: Floats, floor: Floats, outside: float | None) -> Choices:
        """What may be chosen in every known state, for gains and weights (rows,) and floors (known,)."""
        outline = self.outline
        entries = self.start, outline.following, self.probability
        return Choices(outline.first, self.token, *entries, gain, weight, floor, outside)
