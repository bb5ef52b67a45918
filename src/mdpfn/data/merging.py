"""Merging logs: states and actions are matched by their names, whatever their ids were."""

from collections import Counter
from typing import Any

import numpy as np

from mdpfn.arrays import Ints
from mdpfn.data.declared import check_available
from mdpfn.data.log import Logged
from mdpfn.errors import MdpfnError
from mdpfn.spaces.codec import Codec, DiscreteCodec, LabelCodec
from mdpfn.spaces.encoding import SpaceEncoding, codec_of


def merged(first: Logged, second: Logged) -> Logged:
    """Both logs together. In whatever order logs are merged, the result is the same bit for bit."""
    one, two = first.encoding, second.encoding
    observation_space, states = _common(one.observation_space, one.states, two.observation_space, two.states)
    action_space, actions = _common(one.action_space, one.actions, two.action_space, two.actions)
    moved, starts = [], []
    for each in (first, second):
        of_states = _ids(each.encoding.states, states, each.statistics.n_states)
        of_actions = _ids(each.encoding.actions, actions, each.statistics.n_actions)
        n_states = max(states.n, first.statistics.n_states, second.statistics.n_states)
        moved.append(each.statistics.renumbered(of_states, of_actions, n_states, actions.n))
        starts.append(Counter({int(of_states[state]): n for state, n in (each.starts or {}).items()}))
    known = first.starts is not None and second.starts is not None
    statistics, encoding = moved[0].merge(moved[1]), SpaceEncoding(observation_space, action_space, states, actions)
    check_available(statistics, encoding)
    return Logged(
        statistics,
        encoding,
        Counter(dict(sorted((starts[0] + starts[1]).items()))) if known else None,
        first.columns if first.columns == second.columns else None,
        dict(sorted((Counter(first.notes) + Counter(second.notes)).items())),
    )


def _common(space: Any, codec: Codec, other_space: Any, other: Codec) -> tuple[Any, Codec]:
    """The space of both: ids up to the largest, or all names, sorted where the two logs do not number them alike."""
    if isinstance(codec, DiscreteCodec) and isinstance(other, DiscreteCodec) and isinstance(space, int):
        largest = codec if codec.n >= other.n else other
        return largest.n, DiscreteCodec(largest.n, 0, codec.field)
    if not isinstance(codec, LabelCodec) or not isinstance(other, LabelCodec):
        if space != other_space:
            limit = f"what is known already has {space}"
            raise MdpfnError(f"the space of the {codec.field}s", other_space, limit, "give both logs the same space")
        return space, codec
    names = codec.labels if codec.labels == other.labels else _sorted({*codec.labels, *other.labels})
    if isinstance(space, list) and isinstance(other_space, list):
        return names, LabelCodec(names, codec.field, growing=False)
    if space != other_space:
        limit = f"what is known already has {space}"
        raise MdpfnError(f"the space of the {codec.field}s", other_space, limit, "cut both logs into the same bins")
    return space, codec_of(space, codec.field, 0, names)


def _sorted(names: set[Any]) -> list[Any]:
    try:
        return sorted(names)
    except TypeError:
        return sorted(names, key=repr)


def _ids(codec: Codec, common: Codec, n: int) -> Ints:
    """(n,) the new id of every old one."""
    if not isinstance(codec, LabelCodec) or codec is common:
        return np.arange(n)
    assert isinstance(common, LabelCodec)
    number = {label: i for i, label in enumerate(common.labels)}
    return np.array([number[label] for label in codec.labels], dtype=np.int64)
