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
    from mdpfn.spaces.json import to_json

    loaded, observed = _read(agent, observations)
    actions = [to_json(loaded.predict(observation)[0]) for observation in observed]
    answer("\n".join(map(str, actions)), {"actions": actions}, json)


def explain(agent: SavedAgent, observations: Observations, plot: Path | None = None, json: bool = False) -> None:
    """Say what a saved agent knows of an observation: of every action what was seen, and what it may be worth.

    Args:
        agent: A file that `mdpfn solve --save`, `mdpfn fit --save` or `agent.save` wrote.
        observations: As for `mdpfn predict`.
        plot: Draw what every action may be worth, for the last of them.
        json: Print JSON.
    """
    loaded, observed = _read(agent, observations)
    found = [loaded.explain(observation) for observation in observed]
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


def _read(agent: Path, texts: tuple[str, ...]) -> tuple[Any, list[Any]]:
    """A saved agent, and the observations that texts stand for: values of its space, or names."""
    from mdpfn.agent import Agent
    from mdpfn.spaces.json import value_of

    if not texts:
        raise MdpfnError("the observation", "missing", "at least one is needed", "give it after the agent")
    loaded, observed = Agent.load(agent), []
    encoding = loaded.problem.encoding
    for text in texts:
        value = value_of(encoding.observation_space, parsed(text))
        named = encoding.observation_space is None and encoding.find(value) >= encoding.states.n > encoding.find(text)
        observed.append(text if named else value)  # a name may look like a number
    return loaded, observed
