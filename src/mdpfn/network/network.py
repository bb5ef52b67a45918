"""The policy network: encode pairs, propagate along observed transitions K times, read a policy off (A.4).

This is the one that is trained. At use, `numpy_network.py` computes the same, function by function.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdpfn.network.config import NetworkConfig, Rounding
from mdpfn.network.dropout import dropout
from mdpfn.network.features import CERTAINTY_EQUIVALENT_VALUE, DOUBT, PLAIN, PLANNED, POLICY_SKIP
from mdpfn.network.packing import Answer, Tokens
from mdpfn.network.propagation import Graph, Propagation
from mdpfn.network.step import StepConstants, StepWeights, mean_over_actions, plain_step


class MLP(nn.Module):
    """Linear, GELU, dropout, linear. `finish` starts behind the first linear layer."""

    def __init__(self, n_in: int, width: int, n_out: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_in, width)
        self.out = nn.Linear(width, n_out)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """(n, n_out) of (n, n_in)."""
        return self.finish(self.hidden(x))

    def finish(self, hidden: Tensor) -> Tensor:
        """(n, n_out) of the (n, width) output of the first linear layer."""
        activation = F.gelu(hidden)
        if self.dropout and self.training:
            activation = dropout(activation, self.dropout)
        out: Tensor = self.out(activation)
        return out


class PlanResidual(nn.Module):
    """A skip connection from the plans to the outputs; untrained, it gives the certainty-equivalent plan.

    How far each is followed depends on the state, and is the same for all actions in it: so the network can trust a
    plan without blurring what it says.
    """

    def __init__(self, config: NetworkConfig, n_features: int) -> None:
        super().__init__()
        self.always = nn.Linear(n_features, 1 + len(config.quantiles), bias=False)
        self.trust = MLP(config.width, config.width, n_features, config.dropout)
        for weight in (self.always.weight, *self.trust.out.parameters()):
            nn.init.zeros_(weight)
        with torch.no_grad():
            for feature, logit in POLICY_SKIP.items():
                self.always.weight[0, feature] = logit

    def forward(self, plans: Tensor, trust: Tensor) -> Tensor:
        """(…, outputs) policy and quantiles of plans (…, features), given the trust in them (…, features)."""
        policy, values = torch.tensor_split(self.always(plans), (1,), dim=-1)
        return torch.cat([policy + (trust * plans).sum(dim=-1, keepdim=True), values], dim=-1)


class ActionPooling(nn.Module):
    """Shifts the logits of untried pairs by the mean embedding of their action in states where it was tried.

    Without it, all actions that were never tried in a state look alike. Untrained, it says nothing.
    """

    def __init__(self, config: NetworkConfig, n_features: int) -> None:
        super().__init__()
        self.shift = MLP(config.width + n_features + 1, config.width, 2, config.dropout)
        for weight in self.shift.out.parameters():
            nn.init.zeros_(weight)

    def forward(self, pairs: Tensor, tokens: Tokens[Tensor]) -> Tensor:
        """(all pairs,) the shift of each logit; 0 for tried pairs."""
        n_visited = len(tokens.pair_action)
        visited = torch.cat([pairs[:n_visited], tokens.row_features[:n_visited]], dim=1)
        mean = visited.new_zeros(len(tokens.action_features), visited.shape[1])
        mean.index_add_(0, tokens.pair_action, visited * tokens.action_weight[:, None])
        shift: Tensor = self.shift(torch.cat([mean, tokens.action_features], dim=1))
        by_kind = F.pad(shift, (1, 0)).view(-1)  # nothing for TRIED, then UNTRIED, then UNKNOWN
        return by_kind.index_select(0, 3 * tokens.logit_action + tokens.logit_kind)


class PolicyNetwork(nn.Module):
    """Statistics in, policy logits out; equivariant to renaming states and actions.

    W [a; b] = W_a a + W_b b, so a layer that reads a concatenation is applied piece by piece: what reads the
    constant encoding e_sa runs once instead of K times, and W_m W_o is a single matrix.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.rounding: Rounding = "none"  # of factors in the products of the K steps, in training
        d, dropout = config.width, config.dropout
        of_pair, of_state, of_row = PLAIN if config.inputs == "plain" else PLANNED
        self.encoder = MLP(of_pair, d, d, dropout)  # φ_enc
        self.state_init = MLP(d + of_state, d, d, dropout)  # φ_init
        self.query = nn.Linear(2 * d, d)  # W_q [h_sa; e_sa]
        self.key = nn.Linear(d, d)  # W_k
        self.value = nn.Linear(d, d)  # W_v
        self.output = nn.Linear(d, d)  # W_o
        self.pair_update = MLP(3 * d, d, d, dropout)  # φ_sa [h_sa; m_sa; e_sa]
        self.state_update = MLP(2 * d, d, d, dropout)  # φ_s [h_s; mean_a h_sa]
        self.pair_norm = nn.LayerNorm(d)
        self.state_norm = nn.LayerNorm(d)
        self.head = MLP(3 * d + of_row, d, 1 + len(config.quantiles), dropout)  # φ_head [h_s; h_sa; e_sa; plans]
        self.plan_residual = PlanResidual(config, of_row) if of_row else None
        self.action_pooling = ActionPooling(config, of_row) if config.action_pooling else None
        if self.plan_residual is not None:  # untrained, it says what the plans say; what it learns is a correction
            nn.init.zeros_(self.head.out.weight)
            nn.init.zeros_(self.head.out.bias)

    def forward(
        self, tokens: Tokens[Tensor], depth: int | None = None, transition_bias: float | None = None
    ) -> Answer[Tensor]:
        """The policy of every MDP, and the quantiles of its values if the network has any."""
        depth, beta = self.config.unrolled(depth, transition_bias)
        code = self.encoder(tokens.pair_features)  # e_sa
        states = self.state_init(torch.cat([mean_over_actions(code, tokens), tokens.state_features], dim=1))  # h_s⁽⁰⁾
        states, pairs = self._propagated(states, code, tokens, beta, depth)
        return self._readout(states, pairs, code, tokens)

    def _propagated(
        self, states: Tensor, code: Tensor, tokens: Tokens[Tensor], beta: float, depth: int
    ) -> tuple[Tensor, Tensor]:
        """h_s⁽ᴷ⁾ and h_sa⁽ᴷ⁾ from h_s⁽⁰⁾ and h_sa⁽⁰⁾ = e_sa."""
        weights, constants = self._step_weights(code, tokens, beta)
        rate = self.config.dropout if self.training else 0.0
        if torch.is_grad_enabled() and code.device.type == "cpu" and self.config.share_of_step(depth) == 1:
            given = states, code, constants.hidden, constants.query, *weights
            after: tuple[Tensor, Tensor] = Propagation.apply(  # type: ignore[no-untyped-call]
                Graph(tokens, constants.edge_bias), depth, self.config.n_heads, rate, self.rounding, *given
            )
            return after
        pairs = code
        for number in range(1, depth + 1):
            after = plain_step(states, pairs, tokens, weights, constants, self.config.n_heads, rate)
            share = self.config.share_of_step(number)
            states, pairs = after if share == 1 else (states.lerp(after[0], share), pairs.lerp(after[1], share))
        return states, pairs

    def _step_weights(self, code: Tensor, tokens: Tokens[Tensor], beta: float) -> tuple[StepWeights, StepConstants]:
        """All that does not change over the K steps."""
        d = self.config.width
        scale = (d // self.config.n_heads) ** -0.5
        query_h, query_e = torch.split(self.query.weight * scale, d, dim=1)
        update_h, update_m, update_e = torch.split(self.pair_update.hidden.weight, d, dim=1)
        state_h, state_mean = torch.split(self.state_update.hidden.weight, d, dim=1)
        message = update_m @ self.output.weight
        weights = StepWeights(
            source=torch.cat([self.key.weight, self.value.weight]),
            source_bias=torch.cat([self.key.bias, self.value.bias]),
            single=message @ self.value.weight,
            single_bias=message @ self.value.bias,
            query=query_h,
            message=message,
            pair_hidden=update_h,
            state_hidden=state_h,
            state_hidden_bias=self.state_update.hidden.bias,
            state_mean=state_mean,
            pair_out=self.pair_update.out.weight,
            pair_out_bias=self.pair_update.out.bias,
            pair_gain=self.pair_norm.weight,
            pair_shift=self.pair_norm.bias,
            state_out=self.state_update.out.weight,
            state_out_bias=self.state_update.out.bias,
            state_gain=self.state_norm.weight,
            state_shift=self.state_norm.bias,
        )
        constants = StepConstants(
            hidden=F.linear(code, update_e, self.pair_update.hidden.bias + update_m @ self.output.bias),
            query=F.linear(code[len(tokens.single_successor) :], query_e, self.query.bias * scale),
            edge_bias=beta * tokens.edge_log_prob + tokens.edge_log_multiplicity,
        )
        return weights, constants

    def _readout(self, states: Tensor, pairs: Tensor, code: Tensor, tokens: Tokens[Tensor]) -> Answer[Tensor]:
        """φ_head([h_s; h_sa; e_sa; plans]) of every pair, computed once per distinct row and looked up."""
        d = self.config.width
        head_s, head_sa, head_e, head_row = torch.tensor_split(self.head.hidden.weight, (d, 2 * d, 3 * d), dim=1)
        of_state = F.linear(states, head_s, self.head.hidden.bias)
        of_pair = F.linear(pairs, head_sa) + F.linear(code, head_e)
        n_unvisited = len(tokens.n_states)
        of_visited, of_unvisited = of_pair[:-n_unvisited], of_pair[-n_unvisited:]
        rows = torch.cat(
            [
                of_visited + of_state.index_select(0, tokens.pair_state),
                of_unvisited.index_select(0, tokens.state_mdp) + of_state,
            ]
        )
        out = self.head.finish(rows + F.linear(tokens.row_features, head_row))
        if self.plan_residual is not None:
            trust = self.plan_residual.trust(states)
            trust = torch.cat([trust.index_select(0, tokens.pair_state), trust])
            out = out + self.plan_residual(tokens.row_features, trust)
        policy, values = torch.split(out, [1, len(self.config.quantiles)], dim=1)
        logits = policy.squeeze(1).index_select(0, tokens.logit_row)
        if self.config.quantiles:
            values = self.quantiles(values, tokens.row_features)
        return Answer(
            logits if self.action_pooling is None else logits + self.action_pooling(pairs, tokens),
            values.index_select(0, tokens.logit_row),
        )

    def quantiles(self, values: Tensor, row_features: Tensor) -> Tensor:
        """(rows, levels) in rising order: away from the certainty-equivalent value, as far as it is in doubt.

        The median by its output, the others from there by positive steps. With much data nothing is left in doubt.
        """
        certain, doubt = row_features[:, CERTAINTY_EQUIVALENT_VALUE, None], row_features[:, DOUBT, None]
        middle = self.config.quantiles.index(0.5)
        median, step = values[:, middle : middle + 1], F.softplus(values)
        below = median - step[:, :middle].flip(1).cumsum(1).flip(1)
        offset = torch.cat([below, median, median + step[:, middle + 1 :].cumsum(1)], dim=1)
        return torch.addcmul(certain, doubt, offset)
