"""Safe improvement: SPIBB as its paper has it, and policies that keep to the log where data says too little."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from mdpfn import Agent, MdpfnError, Statistics
from mdpfn.baselines import SPIBB, CertaintyEquivalence
from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.bench.figures.tables import tail
from mdpfn.bench.protocols import logged_leaderboard
from mdpfn.bench.protocols.logged_data import LogSource, soft_policy
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, stored_weights
from mdpfn.cli.measure import leaderboard
from mdpfn.model.exact import Scorer
from mdpfn.planners.problem_info import ProblemInfo
from tests.test_explanation import LOG


def _log(name: str, n: int, seed: int = 0, score: float = 0.3):
    environment = ENVIRONMENTS[name]
    mdp = environment.build()
    return mdp, LogSource(mdp).episodes(soft_policy(mdp, score), n, environment.horizon, np.random.default_rng(seed))


def _spibb(statistics: Statistics, discount: float, least_visits: float) -> np.ndarray:
    return SPIBB(statistics, ProblemInfo.of(discount), np.random.default_rng(0), least_visits=least_visits).plan()


def _oracle(statistics: Statistics, discount: float, least_visits: float) -> np.ndarray:
    """Π_b-SPIBB by its Algorithm 1, state by state; pairs never visited lead anywhere and pay nothing."""
    counts, sums = statistics.dense_counts()
    n_states, n_actions, _ = counts.shape
    n = counts.sum(axis=2)
    ended = np.zeros_like(counts)
    z = statistics.table()
    ended.reshape(-1, n_states)[z.pair[z.transition_row], z.successor] = z.n_terminated
    p = np.where(n[..., None] > 0, (counts - ended) / np.maximum(n, 1)[..., None], 1 / n_states)
    p[z.terminal_mask()] = 0
    r = np.where(n > 0, sums / np.maximum(n, 1), 0)
    logged = np.where(n.sum(axis=1, keepdims=True) > 0, n / np.maximum(n.sum(axis=1, keepdims=True), 1), 1 / n_actions)
    policy = logged
    for _ in range(60):
        flow = np.einsum("sa,sat->st", policy, p)
        value = np.linalg.solve(np.eye(n_states) - discount * flow, (policy * r).sum(axis=1))
        q = r + discount * p @ value
        new = np.zeros_like(policy)
        for s in range(n_states):
            left = 1.0
            for a in range(n_actions):
                if n[s, a] < least_visits:
                    new[s, a] = logged[s, a]
                    left -= logged[s, a]
            free = [a for a in range(n_actions) if n[s, a] >= least_visits]
            if free:
                new[s, max(free, key=lambda a: q[s, a])] += left
        policy = new
    return policy


class TestSPIBB:
    @pytest.mark.parametrize("least_visits", [1, 7, 30])
    def test_as_its_algorithm_says(self, least_visits: int) -> None:
        mdp, log = _log("garnet-10-3-2", 30)
        found = _spibb(log.statistics, mdp.discount, least_visits)
        np.testing.assert_allclose(found, _oracle(log.statistics, mdp.discount, least_visits), atol=1e-9)

    def test_between_the_log_and_certainty_equivalence(self) -> None:
        mdp, log = _log("machine-replacement-6", 300)
        n_visits = log.statistics.table().visits_table()
        keeps = _spibb(log.statistics, mdp.discount, 1e9)
        np.testing.assert_allclose(keeps * n_visits.sum(axis=1, keepdims=True), n_visits)
        best = CertaintyEquivalence(log.statistics, ProblemInfo.of(mdp.discount), np.random.default_rng(0)).plan()
        reached = n_visits.sum(axis=1) > 0
        np.testing.assert_allclose(_spibb(log.statistics, mdp.discount, 1)[reached], best[reached], atol=1e-12)


class TestAtLeast:
    def test_it_is_hardly_ever_worse_than_the_log(self) -> None:
        """Ten episodes of river swim, in which the recommended policy is often worse: the safe one hardly ever is."""
        worse = []
        agent = Agent.from_pretrained()
        for seed in range(12):
            mdp, log = _log("garnet-10-3-2", 5, seed, score=0.6)
            plan = agent.plan(log.statistics, discount=mdp.discount, at_least="logged")
            scorer = Scorer(mdp)
            worse.append(scorer(plan.recommended) < scorer(soft_policy(mdp, 0.6)) - 0.02)
        assert sum(worse) <= 3

    @pytest.mark.parametrize("n", [12, 40, 200])
    def test_of_two_arms_that_hardly_differ_the_worse_is_hardly_ever_chosen(self, n: int) -> None:
        """Nothing follows a pull, so that no bounds add up: a difference must be as sure as was asked for."""
        agent, worse = Agent.from_pretrained(), []
        for seed in range(40):
            rng = np.random.default_rng(seed)
            arm = np.append([0, 1], rng.integers(2, size=n - 2))
            reward = rng.normal(np.where(arm == 0, 0.1, 0.0), 1.0)
            log = Statistics.from_transitions([0] * n, arm, reward, [0] * n, [True] * n)
            policy = agent.plan(log, at_least="logged").recommended[0]
            worse.append(policy[0] < (arm == 0).mean() - 1e-9)
        assert np.mean(worse) <= 0.1

    def test_more_confidence_keeps_more_of_the_log(self) -> None:
        """Whoever asks for more is answered with what was done in at least as many states."""
        mdp, log = _log("garnet-10-3-2", 20)
        visits = log.statistics.table().visits_table()
        logged = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1)
        kept = []
        for confidence in (0.6, 0.95, 1 - 1e-12):
            plan = Agent.from_pretrained().plan(
                log.statistics, discount=mdp.discount, at_least="logged", confidence=confidence
            )
            assert plan.safe_policy is not None
            np.testing.assert_allclose(plan.safe_policy.sum(axis=1), 1)
            kept.append(int(np.isclose(plan.safe_policy, logged).all(axis=1).sum()))
        assert kept[0] < kept[2]
        assert kept == sorted(kept)

    def test_with_enough_data_nothing_is_kept(self) -> None:
        mdp, log = _log("machine-replacement-6", 20_000)
        agent = Agent.from_pretrained()
        safe = agent.plan(log.statistics, discount=mdp.discount, at_least="logged")
        assert Scorer(mdp)(safe.recommended) > 0.99

    def test_fit_takes_it_and_predict_follows(self, tmp_path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agent = Agent.from_pretrained().fit(LOG, at_least="logged", confidence=0.9)
        plan = agent.plan()
        assert plan.safe_policy is not None
        for state in ("new", "loyal"):
            row = agent.problem.encoding.find(state)
            drawn = {agent.predict(state)[0] for _ in range(60)}
            assert drawn == {plan.actions[a] for a in np.flatnonzero(plan.safe_policy[row] > 0.1)}
        agent.save(tmp_path / "agent.safetensors")
        again = Agent.load(tmp_path / "agent.safetensors")
        np.testing.assert_array_equal(again.plan().safe_policy, plan.safe_policy)

    @pytest.mark.parametrize("options", [{"at_least": "best"}, {"confidence": 0.2}, {"confidence": 1.0}])
    def test_what_cannot_be_promised_is_refused(self, options: dict[str, object]) -> None:
        with pytest.raises(MdpfnError, match=next(iter(options))):
            Agent.from_pretrained().reset(2, 2, **options)  # type: ignore[arg-type]


class TestLeaderboard:
    def test_all_contestants_see_the_same_logs(self) -> None:
        protocol = logged_leaderboard.LoggedProtocol(seeds=1, episodes=(10,), behaviours=(0.6,))
        environment = ENVIRONMENTS["machine-replacement-6"]
        ours = Method(IN_CONTEXT, weights=stored_weights("mdpfn-2"))
        methods = [v for m in (ours, Method("spibb"), Method("vi-lcb")) for v in logged_leaderboard.variants(m)]
        assert len(methods) == 2 + len(logged_leaderboard.LEAST_VISITS) + len(logged_leaderboard.PENALTIES)
        for method in methods:
            (row,) = logged_leaderboard.measure(protocol, environment, method)
            assert row["logged"] == pytest.approx(0.6, abs=1e-3)
            assert -3 <= float(row["score"] or 0) <= 1 + 1e-9

    def test_the_worst_tenth(self) -> None:
        assert tail([*range(10, 20), 1.0, 3.0] * 2) == 1.0
        assert tail([5.0]) == 5.0

    def test_logs_are_offline(self, tmp_path: Path) -> None:
        with pytest.raises(MdpfnError, match="offline"):
            leaderboard(logged=True, out=tmp_path)
