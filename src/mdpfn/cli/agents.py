"""What `mdpfn predict`, `mdpfn explain` and `mdpfn export` do with a saved agent.

Everything slow to import is imported inside, so that `--help` need not wait for it.
"""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from tyro.conf import Positional, arg

from mdpfn.cli.answer import answer, parsed
from mdpfn.errors import MdpfnError

SavedAgent: TypeAlias = Annotated[Positional[Path], arg(metavar="AGENT")]
Observations: TypeAlias = Annotated[Positional[tuple[str, ...]], arg(metavar="OBSERVATION")]


def predict(agent: SavedAgent, observations: Observations, json: bool = False) -> None:
    """Say what a saved agent would do.

    Args:
        agent: A file that `mdpfn solve --save`, `mdpfn fit --save` or `agent.save` wrote.
        observations: As JSON, such as 3, '[0.1, -0.2]' or '{"a": 1}'; what is no JSON counts as a name.
        json: Print JSON.
    """
    from mdpfn.agent import Agent
    from mdpfn.spaces.json import plain

    _some(observations)
    loaded = Agent.load(agent)
    actions = [plain(loaded.predict(_observation(loaded, text), on_unknown="best")[0]) for text in observations]
    answer("\n".join(map(str, actions)), {"actions": actions}, json)


def explain(agent: SavedAgent, observations: Observations, plot: Path | None = None, json: bool = False) -> None:
    """Say what a saved agent knows of an observation: of every action what was seen, and what it may be worth.

    Args:
        agent: A file that `mdpfn solve --save`, `mdpfn fit --save` or `agent.save` wrote.
        observations: As for `mdpfn predict`.
        plot: Draw what every action may be worth, for the last of them.
        json: Print JSON.
    """
    from mdpfn.agent import Agent

    _some(observations)
    loaded = Agent.load(agent)
    found = [loaded.explain(_observation(loaded, text)) for text in observations]
    if plot is not None:
        found[-1].plot(plot)
    answer("\n".join(map(str, found)), {"explanations": [one.to_dict() for one in found]}, json)


def export(agent: SavedAgent, out: Path = Path("policy.json"), json: bool = False) -> None:
    """Write the policy of a saved agent as JSON; `examples/` has readers in Python and JavaScript.

    Args:
        agent: A file that `mdpfn solve --save`, `mdpfn fit --save` or `agent.save` wrote.
        out: The file to write.
        json: Print JSON.
    """
    from mdpfn.agent import Agent

    Agent.load(agent).export(out)
    answer(f"written: {out}", {"written": [str(out)]}, json)


def _some(observations: tuple[str, ...]) -> None:
    if not observations:
        raise MdpfnError("the observation", "missing", "at least one is needed", "give it after the agent")


def _observation(agent: Any, text: str) -> Any:
    """The observation that a text stands for: a value of the agent's space, or a name."""
    from mdpfn.spaces.json import value_of

    encoding = agent.problem.encoding
    value = value_of(encoding.observation_space, parsed(text))
    if encoding.observation_space is None and encoding.find(value) >= encoding.states.n > encoding.find(text):
        return text  # a name that looks like a number
    return value
