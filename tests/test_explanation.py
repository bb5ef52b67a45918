"""Explanations, frames and warnings: what is said about a recommendation is what the data and the plan say."""

import json
import warnings

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete

from mdpfn import Agent, MdpfnError, UnknownStateWarning
from mdpfn.explanation import Explanation

LOG = (
    [("new", "call", 1.0, "loyal", False)] * 6
    + [("new", "call", 0.0, "gone", True)] * 2
    + [("new", "wait", 0.0, "gone", True)] * 3
    + [("loyal", "wait", 2.0, "loyal", False)] * 20
)


@pytest.fixture(scope="module")
def agent() -> Agent:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Agent.from_pretrained().fit(LOG)


def test_an_explanation_counts_what_is_in_the_log(agent: Agent) -> None:
    found = agent.explain("new")
    call, wait = {a.action: a for a in found.actions}["call"], {a.action: a for a in found.actions}["wait"]
    assert (call.n_visits, call.mean_reward) == (8, 0.75)
    assert call.successors == (("loyal", 0.75),)
    assert call.terminated == 0.25
    assert (wait.n_visits, wait.support, call.support) == (3, "data and prior", "data")
    assert found.recommended == agent.predict("new")[0] == "call"
    assert call.q_low < call.q_median < call.q_high
    assert "call is recommended" in str(found)
    assert "tried 8 times, mean reward 0.75, led to loyal (75%), the end (25%)" in str(found)


def test_what_was_never_tried_is_carried_by_the_prior(agent: Agent) -> None:
    call = {a.action: a for a in agent.explain("loyal").actions}["call"]
    assert (call.n_visits, call.support, call.successors) == (0, "prior", ())
    assert np.isnan(call.mean_reward)
    assert "never tried" in str(call)


def test_nothing_is_recommended_where_episodes_end(agent: Agent, tmp_path) -> None:
    assert agent.explain("gone").recommended is None
    assert "nothing to decide" in str(agent.explain("gone"))
    agent.result.save_policy(tmp_path / "policy.csv")
    rows = {line.split(",")[0]: line.split(",") for line in (tmp_path / "policy.csv").read_text().splitlines()}
    assert rows["gone"][1] == ""
    assert rows["new"][1] == "call"
    assert rows["new"][5] == "data"
    assert "gone" not in set(agent.plan().to_frame()["state"])
    known = json.loads(json.dumps(agent.result.to_dict(), allow_nan=False))
    assert known["greedy"][known["states"].index("gone")] is None


def test_an_explanation_of_an_unknown_state_says_that_only_the_prior_speaks(agent: Agent) -> None:
    found, plan = agent.explain("elsewhere"), agent.plan()
    assert {a.support for a in found.actions} == {"prior"}
    assert all(np.isnan(a.q_median) for a in found.actions)  # nothing is taken over from a state that is known
    usual = plan.policy[:2].mean(axis=0)
    np.testing.assert_allclose([a.probability for a in found.actions], usual)
    np.testing.assert_allclose(agent.action_distribution("elsewhere"), usual)
    assert found.recommended == plan.actions[usual.argmax()] == agent.predict("elsewhere", on_unknown="best")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        exist = {"available": lambda state: ["call", "wait"], "action_space": ["call", "wait", "fly"]}
        never = Agent.from_pretrained().fit(LOG, **exist)
    assert never.predict("elsewhere", on_unknown="best")[0] in ("call", "wait")
    only_call = [action == "call" for action in plan.actions]
    assert agent.predict("elsewhere", action_mask=only_call, on_unknown="best")[0] == "call"
    assert plan.states == ["new", "loyal", "gone"]


@pytest.mark.parametrize("how", ["warn", "raise", "best"])
def test_predicting_in_an_unknown_state_says_so(agent: Agent, how: str) -> None:
    if how == "warn":
        with pytest.warns(UnknownStateWarning, match="nothing is known of this state"):
            agent.predict("elsewhere")
    elif how == "raise":
        with pytest.raises(MdpfnError, match="'elsewhere'"):
            agent.predict("elsewhere", on_unknown="raise")
    else:
        assert agent.predict("elsewhere", on_unknown="best")[0] in ("call", "wait")
    assert agent.predict("new", on_unknown="raise")[0] == "call"


def test_actions_that_are_vectors_are_explained_and_reported(tmp_path) -> None:
    spaces = {"observation_space": Discrete(2), "action_space": MultiDiscrete([2, 2])}
    log = [0, 1, 0, 1], [[0, 1], [1, 1], [1, 0], [0, 0]], [1.0, 0.0, 0.0, 2.0], [1, 0, 0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = Agent.from_pretrained().partial_fit(log, **spaces).partial_fit(log, **spaces)
    assert agent.num_timesteps == 8
    found = agent.explain(0)
    np.testing.assert_array_equal(found.recommended, agent.predict(0)[0])
    assert found.runner_up is not found.best
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["recommended"] == found.recommended.tolist()
    agent.report(tmp_path / "report.html")
    assert str(found.recommended) in (tmp_path / "report.html").read_text()


def test_visits_are_those_that_were_made_not_those_that_parts_foretell() -> None:
    """A walk that never leaves the first row of a grid, whose parts tell what the other rows are like."""
    spaces = {"observation_space": MultiDiscrete([4, 4]), "action_space": Discrete(2)}
    states = [[0, column] for column in range(4) for _ in range(10)]
    after = [[0, min(column + 1, 3)] for column in range(4) for _ in range(10)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = Agent.from_pretrained().fit((states, [0] * 40, [0.0] * 40, after), **spaces)
    assert len(agent.plan().planned_from[0].pair) >= len(agent.evidence.table().pair) == 4
    assert (agent.plan().to_frame()["n_visits"] > 0).sum() == 4


def test_a_wrong_choice_is_refused(agent: Agent) -> None:
    with pytest.raises(MdpfnError, match="on_unknown"):
        agent.predict("new", on_unknown="sometimes")  # type: ignore[arg-type]


def test_a_decision_is_open_only_while_intervals_overlap(agent: Agent) -> None:
    found = agent.explain("new")
    best = next(a for a in found.actions if a.action == found.recommended)
    other = found.runner_up
    assert other is not None
    assert found.is_open == (other.q_high >= best.q_low)
    assert ("may change it" in found.decision) == found.is_open


def test_frame_and_picture(agent: Agent, tmp_path) -> None:
    table = agent.plan().to_frame()
    assert list(table[table["recommended"]]["state"]) == ["new", "loyal"]
    assert table["probability"].groupby(table["state"]).sum().to_numpy() == pytest.approx([1, 1])
    found: Explanation = agent.explain("new")
    assert list(found.to_frame()["n_visits"]) == [a.n_visits for a in found.actions]
    found.plot(tmp_path / "new.png")
    assert (tmp_path / "new.png").stat().st_size > 1000
