"""Records `mdpfn play` as an animated picture: a world is drawn, learned, and raced in.

    python -m scripts.record_play docs/figures/play.webp

Needs the dev extra and a Chromium of the system. The picture is made of screenshots taken after every episode.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

SIZE = {"width": 1270, "height": 800}
WIDTH = 900  # of the picture
EPISODES = 30
DRAWN = (("wall", "3,6"), ("ice", "1,3"), ("ice", "2,3"), ("goal", "0,8"))
DRAW_MS, EPISODE_MS, RACE_MS, HOLD_MS = 450, 170, 260, 3000


class Film:
    """Screenshots, and how long each is shown."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.times: list[int] = []

    def shoot(self, milliseconds: int) -> None:
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        height = round(WIDTH * picture.height / picture.width)
        self.frames.append(picture.resize((WIDTH, height), Image.Resampling.LANCZOS))
        self.times.append(milliseconds)

    def save(self, path: Path) -> None:
        first, *others = self.frames
        path.parent.mkdir(parents=True, exist_ok=True)
        options: dict[str, Any] = {"duration": self.times, "loop": 0, "quality": 62, "method": 6, "minimize_size": True}
        first.save(path, save_all=True, append_images=others, **options)
        print(f"{path}: {len(self.frames)} frames, {path.stat().st_size / 1e6:.2f} MB")


def record(page: Any) -> Film:
    film = Film(page)
    page.locator("#sentence", has_text="then press Run").wait_for()
    film.shoot(1200)
    for brush, place in DRAWN:
        page.click(f"[data-brush='{brush}']")
        page.click(f"[data-place='{place}']")
        page.wait_for_timeout(700)
        film.shoot(DRAW_MS)
    page.click("[data-brush='look']")
    page.mouse.move(0, 0)
    learn(page, film, every=1, milliseconds=EPISODE_MS)
    film.shoot(HOLD_MS // 2)
    page.click("#restart")
    page.locator("#sentence", has_text="knows nothing").wait_for()
    page.click("#race")
    page.locator("#boards.race figure").nth(4).wait_for()
    film.shoot(RACE_MS)
    learn(page, film, every=2, milliseconds=RACE_MS)
    film.shoot(HOLD_MS)
    return film


def learn(page: Any, film: Film, *, every: int, milliseconds: int) -> None:
    """One episode after the other to the end of the budget, with a picture after some of them."""
    for episode in range(1, EPISODES + 1):
        page.keyboard.press("e")
        said = f"Episode {episode + 1} of" if episode < EPISODES else f"After {EPISODES} episodes"
        page.locator("#sentence", has_text=said).wait_for()
        if episode % every == 0:
            page.wait_for_timeout(150)  # colours fade
            film.shoot(milliseconds)


def main(path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    command = [sys.executable, "-m", "mdpfn", "play", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = re.search(r"http://\S+", server.stdout.readline())
    assert found
    try:
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = chromium.new_page(viewport=SIZE)
            page.set_default_timeout(120_000)
            page.goto(found.group())
            record(page).save(path)
            chromium.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
