"""Shapes of the central tables are checked whenever one is made, in all tests."""

import jaxtyping  # first: only then are the types of `mdpfn.arrays` more than names
from beartype import beartype

from mdpfn.evidence import PairTable
from mdpfn.evidence.layout import Layout
from mdpfn.model.empirical import Assumptions, Values
from mdpfn.planners.classical import Estimates
from mdpfn.planners.problem_info import ProblemInfo

for table in (PairTable, Layout, Assumptions, Values, Estimates, ProblemInfo):
    jaxtyping.jaxtyped(typechecker=beartype)(table)
