"""In all tests, shapes of the central tables are checked whenever one is made; and a fixture for training."""

from collections.abc import Iterator

import jaxtyping  # first: only then are the types of `mdpfn.arrays` more than names
import pytest
from beartype import beartype

from mdpfn.evidence import PairTable
from mdpfn.evidence.layout import Layout
from mdpfn.model.empirical import Assumptions, Values
from mdpfn.planners.classical import Estimates
from mdpfn.planners.problem_info import ProblemInfo

for table in (PairTable, Layout, Assumptions, Values, Estimates, ProblemInfo):
    jaxtyping.jaxtyped(typechecker=beartype)(table)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch on one thread: the last bits of sums depend on their number."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
