"""Reads a policy that `agent.export` wrote, with nothing but the standard library.

policy = load("policy.json")
action = best_action(policy, observation)
"""

import json
from bisect import bisect_right


def load(path):
    with open(path, encoding="utf-8") as file:
        policy = json.load(file)
    if (policy["format"], policy["version"]) != ("mdpfn-policy", 1):
        raise ValueError("not a policy of a version that this reader knows")
    if policy["kind"] == "table":
        policy["row"] = {_key(state): row for row, state in enumerate(policy["states"])}
    return policy


def best_action(policy, observation, mask=None):
    """The action for an observation; `mask` says which actions exist, if not all of them do."""
    if "bins" in policy:  # a number is known by that of its bin
        parts = observation if isinstance(observation, (list, tuple)) else [observation]
        known = zip(parts, policy["bins"], strict=True)
        observation = [x if edges is None else bisect_right(edges, x) for x, edges in known]
    if policy["kind"] == "table":
        row = policy["row"].get(_key(observation))
        best, preference = policy["elsewhere"], [1] * len(policy["actions"])
        if row is not None:
            best, preference = policy["greedy"][row], policy["policy"][row]
        if mask is None or mask[best]:
            return policy["actions"][best]
    else:
        nodes, scale = policy["states"], policy["scale"]
        distance = [sum(((a - b) / s) ** 2 for a, b, s in zip(observation, node, scale, strict=True)) for node in nodes]
        near = sorted(range(len(nodes)), key=distance.__getitem__)[: policy["neighbours"]]
        q = [[value / (distance[i] + 1e-9) for value in policy["q"][i]] for i in near]
        preference = [sum(column) for column in zip(*q, strict=True)] or [0] * len(policy["actions"])
    allowed = [a for a in range(len(preference)) if mask is None or mask[a]]
    return policy["actions"][max(allowed, key=lambda a: preference[a])]


def _key(value):
    if isinstance(value, dict):
        return tuple(sorted((name, _key(part)) for name, part in value.items()))
    return tuple(map(_key, value)) if isinstance(value, (list, tuple)) else value
