"""Continuous observations in bins: CartPole, MountainCar and Acrobot.

Bins are a choice: coarse ones are learned fast, fine ones distinguish more. One bin leaves a dimension out.

Run it with `python examples/continuous.py`.
"""

from __future__ import annotations

import gymnasium as gym

from mdpfn import Agent, Discretize

BINS = {
    "CartPole-v1": [1, 1, 6, 3],  # the angle of the pole and how fast it falls; where the cart is does not matter
    "MountainCar-v0": [8, 8],  # position and velocity
    "Acrobot-v1": [2, 2, 2, 2, 3, 3],  # sine and cosine of two angles, and how fast they change
}


def greedy_return(agent: Agent, env: gym.Env, episodes: int) -> float:
    """The mean return when the agent no longer explores."""
    total = 0.0
    for episode in range(episodes):
        observation, _ = env.reset(seed=1 if episode == 0 else None)
        ended = False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(agent.predict(observation, on_unknown="best")[0])
            total, ended = total + float(reward), terminated or truncated
    return total / episodes


def main(episodes: int = 100) -> dict[str, float]:
    learned = {}
    for name, bins in BINS.items():
        env = Discretize(gym.make(name), bins)
        agent = Agent.from_pretrained()
        result = agent.solve(env, episodes, seed=0)
        learned[name] = greedy_return(agent, env, episodes=20)
        states = len(result.policy)
        print(f"{name}: {states} states, first return {result.returns[0]:g}, as planned {learned[name]:.1f}")
    return learned


if __name__ == "__main__":
    main()
