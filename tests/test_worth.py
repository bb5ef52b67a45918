"""What policies are worth by a log: values, gains over the logged policy, checks by importance weights."""

import warnings
from typing import Any

import numpy as np
import pytest

from mdpfn import Agent, MdpfnError
from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.bench.protocols.logged_data import LogSource, soft_policy
from mdpfn.model.exact import optimal_q, policy_value
from mdpfn.worth import Worth
from mdpfn.worth.importance import ImportanceCheck, Steps
from tests.test_explanation import LOG


@pytest.fixture(scope="module")
def agent() -> Agent:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Agent.from_pretrained().fit(LOG)


def _worth(name: str, visits: int, seed: int, score: float = 0.4) -> tuple[Worth, Any, np.ndarray]:
    environment = ENVIRONMENTS[name]
    mdp = environment.build()
    behaviour = soft_policy(mdp, score)
    log = LogSource(mdp).episodes(behaviour, visits, environment.horizon, np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = Agent.from_pretrained().plan(log.statistics, discount=mdp.discount)
    return Worth(plan, log.starts), mdp, behaviour


class TestForms:
    def test_all_forms_of_a_policy_are_worth_the_same(self, agent: Agent) -> None:
        plan = agent.plan()
        columns = np.zeros(len(plan.states), dtype=int)
        name = plan.actions[0]
        forms = [columns, np.eye(len(plan.actions))[columns], dict.fromkeys(plan.states, name), lambda state: name]
        found = [agent.evaluate(form) for form in forms]
        for other in found[1:]:
            np.testing.assert_array_equal(found[0].draws, other.draws)
        assert found[0].interval()[0] <= found[0].mean <= found[0].interval()[1]

    def test_the_plan_is_what_the_result_says(self, agent: Agent) -> None:
        np.testing.assert_array_equal(agent.evaluate(agent.plan()).draws, agent.result.value.draws)
        assert agent.evaluate("logged").mean == pytest.approx(agent.result.improvement.logged.mean)

    @pytest.mark.parametrize(
        ("policy", "says"),
        [
            ("best", "(S, A)"),
            (np.ones((2, 2)), "(S, A)"),
            ({}, "a mapping, but it says nothing of"),
            (lambda state: None, "a function, but it says nothing of"),
            (lambda state: "fly", "fly"),
        ],
    )
    def test_what_is_no_policy_is_refused(self, agent: Agent, policy: Any, says: str) -> None:
        with pytest.raises(MdpfnError, match=says.replace("(", r"\(").replace(")", r"\)")):
            agent.evaluate(policy)

    def test_actions_that_do_not_exist_are_worth_nothing(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agent = Agent.from_pretrained().fit(LOG, available={"new": ["call", "wait"], "loyal": ["wait"]})
        plan = agent.plan()
        call = [plan.actions.index("call")] * len(plan.states)
        assert np.isneginf(plan.q_at(0.3)).sum() == 1
        for policy in ({"new": "call", "loyal": "call"}, np.array(call), np.eye(len(plan.actions))[call]):
            with pytest.raises(MdpfnError, match="actions that do not exist"):
                agent.evaluate(policy)

    def test_a_plan_of_another_problem_is_refused(self, agent: Agent) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = Agent.from_pretrained().fit([("a", "x", 1.0, "b"), ("b", "y", 0.0, "a")])
        with pytest.raises(MdpfnError, match=r"policy is Plan\(2 states, 2 actions\), but this problem has 3 states"):
            agent.evaluate(other.plan())

    def test_rows_that_are_no_probabilities_are_refused(self, agent: Agent) -> None:
        with pytest.raises(MdpfnError, match="probabilities"):
            agent.evaluate(np.full(agent.plan().policy.shape, 0.9))


class TestValues:
    def test_a_policy_that_is_worth_the_same_gains_nothing(self) -> None:
        """Both actions do the same: what is left of the difference is rounding."""
        log = [(s, a, 0.1 * s, 1 - s, False) for s in (0, 1) for a in (0, 1)] * 3
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gain = Agent.from_pretrained().fit(log).result.improvement
        assert (gain.mean, gain.probability) == (0.0, 0.5)

    def test_the_logged_policy_gains_nothing_over_itself(self) -> None:
        worth, _, _ = _worth("machine-replacement-6", 50, 0)
        gain = worth.improvement(worth.logged_policy)
        assert not gain.draws.any()
        assert gain.probability == 0.5
        assert gain.risks == ()

    def test_heavy_tails_do_not_move_the_mean(self) -> None:
        """Five rows: tails are those of a distribution without a mean, and one of 128 draws must not decide."""
        columns = {
            "states": ["a", "b", "c", "a", "b"],
            "actions": ["go", "go", "go", "stay", "stay"],
            "rewards": [0.0, 1.0, 5.0, 0.1, 0.0],
            "next_states": ["b", "c", None, "a", "b"],
            "terminated": [False, False, True, False, False],
        }
        gain = Agent.from_pretrained().fit(columns).result.improvement
        assert np.abs(gain.draws).max() > 20  # more than there is to be earned
        assert gain.mean == pytest.approx(gain.new.mean - gain.logged.mean)
        assert 0 < gain.mean < 2
        assert 4.5 < gain.new.mean < 6.5  # 0.95 + 0.95² · 5 = 5.46, less what the choice looks better by

    def test_what_is_known_leaves_nothing_to_be_gained(self) -> None:
        columns = {"states": ["a", "b"], "actions": ["go", "go"], "rewards": [1.0, 0.0], "next_states": ["b", "a"]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regret = Agent.from_pretrained().fit(columns).result.regret
        assert regret.mean == 0
        assert not regret.draws.any()

    def test_with_much_data_everything_is_known(self) -> None:
        worth, mdp, behaviour = _worth("machine-replacement-6", 40_000, 0)
        new, logged = (float(mdp.start @ policy_value(mdp, p)) for p in (worth.plan.greedy, behaviour))
        assert worth.value(worth.plan).mean == pytest.approx(new, rel=0.02)
        assert worth.logged.mean == pytest.approx(logged, rel=0.02)
        gain = worth.improvement(worth.plan.recommended)
        assert gain.mean == pytest.approx(new - logged, rel=0.1)
        assert gain.probability == 1
        assert "better with more than 99 % probability" in str(gain)

    def test_regret_is_what_the_best_policy_has_more_and_ends_with_doubt(self) -> None:
        worth, mdp, behaviour = _worth("machine-replacement-6", 40_000, 0)
        best = float(mdp.start @ optimal_q(mdp).max(axis=1))
        missed = worth.regret(worth.logged_policy)
        assert missed.mean == pytest.approx(best - float(mdp.start @ policy_value(mdp, behaviour)), rel=0.1)
        little, _, _ = _worth("machine-replacement-6", 20, 0)
        assert 0 <= worth.regret(worth.plan.recommended).mean < little.regret(little.plan.recommended).mean

    @pytest.mark.parametrize("name", ["machine-replacement-6", "garnet-10-3-2"])
    def test_intervals_hold_the_truth_as_often_as_they_say(self, name: str) -> None:
        held = []
        for seed in range(20):
            worth, mdp, behaviour = _worth(name, 20, seed)
            new, logged = (float(mdp.start @ policy_value(mdp, p)) for p in (worth.plan.greedy, behaviour))
            for stated, true in (
                (worth.value(worth.plan), new),
                (worth.logged, logged),
                (worth.improvement(worth.plan.recommended), new - logged),
            ):
                low, high = stated.interval(0.9)
                held.append(low <= true <= high)
        assert 0.75 <= np.mean(held) <= 1

    def test_little_data_does_not_promise_too_much(self) -> None:
        """The value of what looks best, in the model that says so, is too high on average; what is stated is not."""
        stated, plug_in, truth = [], [], []
        for seed in range(12):
            worth, mdp, _ = _worth("car-rental", 8, seed, score=0.01)
            stated.append(worth.value(worth.plan).mean)
            plug_in.append(float(mdp.start @ worth._expected.optimal_q(mdp.discount)[0].max(axis=1)))
            truth.append(float(mdp.start @ policy_value(mdp, worth.plan.greedy)))
        assert np.mean(plug_in) - np.mean(truth) > 1.15 * abs(np.mean(stated) - np.mean(truth))

    def test_risk_is_where_chance_is(self, agent: Agent) -> None:
        worth, _, _ = _worth("machine-replacement-6", 50, 0)
        risks = worth.value(worth.plan).risks
        assert risks
        assert sum(risk.share for risk in risks) <= 1 + 1e-9
        assert [risk.share for risk in risks] == sorted((risk.share for risk in risks), reverse=True)

    def test_a_policy_that_the_log_never_followed_has_no_sample(self) -> None:
        worth, _, _ = _worth("machine-replacement-6", 400, 0)
        assert 0 < worth.logged.effective_sample_size <= worth._visits.sum()
        never = np.zeros_like(worth.logged_policy)
        never[np.arange(len(never)), worth._visits.argmin(axis=1)] = 1
        worth._visits[np.arange(len(never)), worth._visits.argmin(axis=1)] = 0
        assert worth.of_table(never).effective_sample_size == 0


def _oracle(episodes: list[Steps], policy: Any, logged: Any, q: Any, discount: float) -> tuple[float, float]:
    """Weighted and doubly robust, straight from the equations, forwards."""
    longest = max(len(e.state) for e in episodes)
    weights = []
    robust = []
    for e in episodes:
        rho, row, total = 1.0, [], 0.0
        for t, (s, a, r) in enumerate(zip(e.state, e.action, e.reward, strict=True)):
            before = rho
            p = logged[s, a] if e.propensity is None else e.propensity[t]
            rho *= policy[s, a] / p
            v = sum(policy[s, b] * q[s, b] for b in range(policy.shape[1]))
            total += discount**t * (rho * r - rho * q[s, a] + before * v)
            row.append(rho)
        robust.append(total)
        weights.append(row + [row[-1]] * (longest - len(row)))
    weighted = 0.0
    for t in range(longest):
        norm = sum(w[t] for w in weights)
        for e, w in zip(episodes, weights, strict=True):
            if t < len(e.reward) and norm:
                weighted += discount**t * w[t] / norm * e.reward[t]
    return weighted, float(np.mean(robust))


class TestImportance:
    @pytest.mark.parametrize("known", [True, False])
    def test_as_the_equations_say(self, known: bool) -> None:
        rng = np.random.default_rng(0)
        policy, logged = rng.dirichlet(np.ones(3), size=(2, 4))
        q = rng.normal(size=(4, 3))
        episodes = []
        for _ in range(7):
            n = int(rng.integers(1, 6))
            s, a = rng.integers(0, 4, n).tolist(), rng.integers(0, 3, n).tolist()
            given = rng.uniform(0.1, 1, n).tolist() if known else None
            episodes.append(Steps(s, a, rng.normal(size=n).tolist(), given))
        found = ImportanceCheck.of(episodes, policy, logged, q, 0.9)
        weighted, robust = _oracle(episodes, policy, logged, q, 0.9)
        assert found.weighted == pytest.approx(weighted)
        assert found.doubly_robust == pytest.approx(robust)
        assert 1 <= found.effective_episodes <= 7

    def test_of_the_logged_policy_it_is_the_mean_return(self, agent: Agent) -> None:
        episodes = [[("new", "call", 1.0, 0.5), ("loyal", "wait", 2.0, 0.25)], [("loyal", "wait", 4.0, 0.25)]]
        table = np.full(agent.plan().policy.shape, 0.0)
        encoding = agent.problem.encoding
        for state, action, probability in (("new", "call", 0.5), ("loyal", "wait", 0.25)):
            table[encoding.find(state), encoding.actions.encode(action)] = probability
        table[table == 0] = (1 - table.sum(axis=1)).repeat((table == 0).sum(axis=1)) / (table == 0).sum(axis=1).repeat(
            (table == 0).sum(axis=1)
        )
        check = agent.evaluate(table, episodes=episodes).check
        assert check is not None
        assert check.weighted == pytest.approx((1 + 0.95 * 2 + 4) / 2)
        assert "2 episodes" in str(check)

    @pytest.mark.parametrize(
        "episodes",
        [
            [],
            [[]],
            [[("new", "call")]],
            [[("mars", "call", 1.0)]],
            [[("new", "call", 1.0, 0.0)]],
            [[("loyal", "call", 1.0)]],
            [[("new", "call", float("nan"))]],
            [[("new", "call", "much")]],
            7,
        ],
    )
    def test_what_is_no_episode_is_refused(self, agent: Agent, episodes: Any) -> None:
        with pytest.raises(MdpfnError, match="episode"):
            agent.evaluate("logged", episodes=episodes)
