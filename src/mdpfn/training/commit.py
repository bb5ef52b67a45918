"""Which commit of the sources is running, for the cards of models."""

import subprocess
from pathlib import Path


def commit() -> str | None:
    """The commit that last changed the package, with a + if its files were changed since; None where there is none."""
    package = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        asked = ["git", "-C", str(package), *arguments, "--", "."]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    try:
        last = git("log", "-1", "--format=%h")
        return last + "+" * bool(git("status", "--porcelain")) if last else None
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        return None
