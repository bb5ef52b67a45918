"""Linear algebra on one thread: the matrices of vectors are small, and threads that wait for each other cost more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function, while which BLAS has one thread: the same seed then gives the same on any number of cores."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone


@cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 (it brings a BLAS of its own, which has to be there before one looks)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
