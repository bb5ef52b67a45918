"""`mdpfn serve` as a process of its own: the same answers as the agent, limits, errors, and nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gymnasium as gym
import numpy as np
import pytest

from mdpfn import Agent
from mdpfn.serve.app import SAVE_EVERY, ServedAgent
from mdpfn.serve.local import Refusal
from mdpfn.serve.rate import RateLimit
from mdpfn.spaces.json import to_json, value_of
from tests.pages import Served, serving

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agents") / "lake.safetensors"
    agent = Agent.from_pretrained()
    agent.solve(gym.make("FrozenLake-v1"), 12, seed=0)
    agent.save(path)
    return path


@pytest.fixture(scope="module")
def served(saved: Path) -> Iterator[Served]:
    with serving("serve", str(saved), "--no-learn") as server:
        yield server


class Client:
    """A connection that stays open, as a real client's does."""

    def __init__(self, served: Served) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(served.address).netloc, timeout=20)

    def __call__(self, path: str, content: Any, method: str = "POST", headers: Any = JSON) -> tuple[int, Any]:
        body = content if isinstance(content, bytes) else json.dumps(content)
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    client = Client(served)
    yield client
    client.connection.close()


def test_it_answers_as_the_agent_does(client: Client, saved: Path) -> None:
    agent = Agent.load(saved)
    expected = [int(agent.predict(s, on_unknown="best")[0]) for s in range(16)]
    assert [client("/predict", {"observation": s})[1]["action"] for s in range(16)] == expected
    assert client("/predict", {"observations": list(range(16))})[1]["actions"] == expected
    masked = client("/predict", {"observation": 0, "action_mask": [False, False, False, True]})
    assert masked == (200, {"action": 3})
    explained = client("/explain", {"observation": 0})[1]
    why = agent.explain(0)
    assert explained["recommended"] == why.recommended
    assert [a["n_visits"] for a in explained["actions"]] == [a.n_visits for a in why.actions]
    assert [a["q_low"] <= a["q_median"] <= a["q_high"] for a in explained["actions"]] == [True] * 4
    assert client("/", b"", "GET")[1]["n_transitions"] == agent.evidence.n_transitions


@pytest.mark.parametrize(
    ("status", "path", "content", "options"),
    [
        (400, "/predict", b"{", {}), (400, "/predict", b"[]", {}), (400, "/predict", {}, {}),
        (400, "/predict", {"observation": 99}, {}), (400, "/predict", {"observation": [0]}, {}),
        (400, "/predict", {"observation": "x"}, {}), (400, "/predict", {"observation": 0, "action_mask": [1]}, {}),
        (400, "/predict", {"observations": 7}, {}), (400, "/explain", {"observation": None}, {}),
        (413, "/predict", b" " * 70_000, {}), (404, "/train", {}, {}), (405, "/predict", {}, {"method": "PUT"}),
        (415, "/predict", {"observation": 0}, {"headers": {"Content-Type": "text/plain"}}),
        (403, "/observe", {"observation": 0, "action": 0, "reward": 0.0, "next_observation": 1}, {}),
    ],
)  # fmt: skip
def test_errors_are_json_and_the_next_request_is_answered(
    client: Client, status: int, path: str, content: Any, options: Any
) -> None:
    got, answer = client(path, content, **options)
    assert (got, list(answer)) == (status, ["error"])
    assert "Traceback" not in answer["error"]
    client.connection.close()
    assert client("/predict", {"observation": 0})[0] == 200


def transition(i: int) -> dict[str, Any]:
    return {
        "observation": i % 16,
        "action": i % 4,
        "reward": 0.0,
        "next_observation": (i + 1) % 16,
        "terminated": False,
    }


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_observed_is_kept(how: int, tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    Agent.from_pretrained().reset(16, 4, seed=0).save(path)
    acknowledged: list[float] = []
    with serving("serve", str(path)) as server:

        def learn() -> None:
            client = Client(server)
            try:
                for i in range(10**6):
                    status, answer = client("/observe", transition(i))
                    assert (status, answer["n_transitions"]) == (200, i + 1)
                    acknowledged.append(time.monotonic())
            except (OSError, http.client.HTTPException):
                pass  # the server is gone
            client.connection.close()

        learner = threading.Thread(target=learn)
        learner.start()
        asker = Client(server)
        until = time.monotonic() + 2.5
        while time.monotonic() < until or len(acknowledged) < 60:
            assert asker("/predict", {"observation": 3})[0] == 200
        killed = time.monotonic()
        server.stop(how)
        learner.join()
        asker.connection.close()
    assert server.process.returncode == (0 if how == signal.SIGTERM else -how)
    kept = Agent.load(path).evidence.n_transitions
    assert len(acknowledged) >= 60
    must = len(acknowledged) if how == signal.SIGTERM else sum(at < killed - 1.0 for at in acknowledged)
    assert must <= kept <= len(acknowledged) + 1


def test_what_could_not_be_saved_is_saved_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, path = Agent.from_pretrained().reset(16, 4, seed=0), tmp_path / "agent.safetensors"
    save, failed = agent.save, threading.Event()

    def save_at_last(to: Path) -> None:
        if not failed.is_set():
            failed.set()
            raise MemoryError
        save(to)

    monkeypatch.setattr(agent, "save", save_at_last)
    served = ServedAgent(agent, path)

    async def serve() -> None:
        await served.observe(transition(0))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(served.save_again_and_again(), 5 * SAVE_EVERY)

    asyncio.run(serve())
    assert failed.is_set()
    assert Agent.load(path).evidence.n_transitions == 1


def test_a_bad_observation_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    Agent.from_pretrained().reset(16, 4, seed=0).save(path)
    with serving("serve", str(path), "--rate", "1000000") as server:
        client = Client(server)
        assert client("/observe", transition(0))[0] == 200
        for change in ({"reward": None}, {"action": 9}, {"next_observation": -1}, {"terminated": 1}, {"reward": "1"}):
            assert client("/observe", transition(1) | change)[0] == 400
        assert client("/", b"", "GET")[1]["n_transitions"] == 1
        client.connection.close()
        assert server.stop() == 0
    assert Agent.load(path).evidence.n_transitions == 1


def test_vectors_are_served_too(tmp_path: Path) -> None:
    agent = Agent.from_pretrained()
    agent.solve(gym.make("MountainCar-v0"), 1, seed=0)
    agent.save(tmp_path / "car.safetensors")
    with serving("serve", str(tmp_path / "car.safetensors"), "--no-learn") as server:
        client = Client(server)
        status, answer = client("/predict", {"observation": [-0.5, 0.0]})
        assert (status, answer["action"]) == (200, int(agent.predict(np.array([-0.5, 0.0], dtype=np.float32))[0]))
        assert len(client("/explain", {"observation": [-0.5, 0.0]})[1]["actions"]) == 3
        assert client("/predict", {"observation": [0.0]})[0] == 400
        client.connection.close()


def test_the_rate_is_limited_and_recovers() -> None:
    now = 0.0
    limit = RateLimit(10, clock=lambda: now)
    for _ in range(10):
        limit.take()
    with pytest.raises(Refusal) as refused:
        limit.take()
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "1"})
    now = 0.5
    for _ in range(5):
        limit.take()
    with pytest.raises(Refusal):
        limit.take()


def test_values_come_back_from_json() -> None:
    spaces = gym.spaces
    space = spaces.Dict(
        {"a": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))]), "b": spaces.MultiDiscrete([2, 3])}
    )
    space.seed(0)
    value = space.sample()
    assert space.contains(value_of(space, json.loads(json.dumps(to_json(value)))))
    assert value_of(None, ["x", [1, 2]]) == ("x", (1, 2))
    assert to_json({"q": float("nan"), "n": np.int64(3)}) == {"q": None, "n": 3}
