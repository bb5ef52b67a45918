"""Every Python block in README and tutorials runs, in order, in an empty directory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=lambda p: p.name)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), names)


def test_figures_in_readme_and_docs_exist() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name} shows {target}"


def test_the_walks_of_the_architecture_name_what_there_is() -> None:
    hops = re.findall(r"`([\w/]+\.py): (\w+)(?:\.(\w+))?`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert len(hops) > 40
    for file, name, method in hops:
        source = (ROOT / "src" / "mdpfn" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(class|def) {name}\b", source, flags=re.MULTILINE), f"{file} has no {name}"
        assert not method or re.search(rf"^    def {method}\b", source, flags=re.MULTILINE), f"{name} has no {method}"
