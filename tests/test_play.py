"""`mdpfn play`: worlds as data, the server behind its token, and the page in a real browser."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpfn import Agent, MdpfnError
from mdpfn.bench.environments import ENVIRONMENTS, TabularEnv
from mdpfn.coverage import CoverageWarning
from mdpfn.model.exact import optimal_q
from mdpfn.play.board import Board
from mdpfn.play.catalog import PRESETS
from mdpfn.play.session import MOST_SESSIONS, Scene, Session, Settings
from mdpfn.play.world import MARKS, World, shared_fragment
from tests.pages import CHROMIUM, Served, needs_browser, serving

# ---- worlds ---------------------------------------------------------------------------------------------------

maps = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.text(sorted(MARKS), min_size=width, max_size=width), min_size=1, max_size=6)
)


@settings(max_examples=60, deadline=None)
@given(maps, st.floats(0, 1), st.floats(-5, 5))
def test_every_map_with_a_start_is_an_mdp_and_comes_back_from_json(rows: list[str], slip: float, toll: float) -> None:
    rows[0] = "S" + rows[0][1:]
    world = World(tuple(rows), {(0, 0): toll}, slip=slip)
    assert World.from_json(json.loads(json.dumps(world.to_json()))) == world
    mdp = world.mdp(0.9)
    assert mdp.n_states == sum(mark != "#" for row in rows for mark in row)
    assert np.allclose(mdp.transition.sum(axis=1), 1)
    ends = [world.rows[r][c] in "GX" for r, c in world.cells]
    assert mdp.terminal.tolist() == ends


def reached(rows: tuple[str, ...], action: int, **rest: Any) -> dict[tuple[int, int], float]:
    """Where one action from the start leads, and how likely."""
    world = World(rows, **rest)
    mdp = world.mdp(0.9)
    row = mdp.dense_transition[int(mdp.start.argmax()), action]
    return {world.cells[i]: round(float(p), 3) for i, p in enumerate(row) if p > 0}


UP, DOWN, LEFT, RIGHT = range(4)


def test_what_cells_do() -> None:
    assert reached(("S#",), RIGHT) == {(0, 0): 1.0}  # walls stop
    assert reached(("...", ".S.", "..."), UP, slip=0.2) == {(0, 1): 0.8, (1, 0): 0.1, (1, 2): 0.1}
    assert reached(("Sr.",), RIGHT) == {(0, 1): 1.0}  # doors are passed in their direction …
    assert reached((".rS",), LEFT) == {(0, 2): 1.0}  # … only
    wind = World(("S..", "^..", "..."))
    mdp = wind.mdp(0.9)
    assert mdp.dense_transition[3, RIGHT, 1] == 1  # a step to the right off the windy cell is blown up by one
    ice = World((".S.", ".~.", "...")).mdp(0.9)
    assert np.round(ice.dense_transition[4, DOWN], 3)[[3, 5, 7]].tolist() == [0.333] * 3
    pays = World(("SG",), {(0, 1): -0.25}, step_reward=-0.1, goal_reward=2.0).mdp(0.9)
    assert pays.reward[0].tolist() == pytest.approx([-0.1, -0.1, -0.1, 1.65])


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"version": 2}, {"rows": []}, {"rows": "S."}, {"rows": ["S.", "."]}, {"rows": [".."]},
        {"rows": ["S?"]}, {"rows": ["S" * 17]}, {"rows": [["S"]]}, {"prices": {"0;1": 1}}, {"prices": {"9,9": 1}},
        {"prices": []}, {"prices": {"0,1": "much"}}, {"prices": {"0,1": 1e9}}, {"slip": 2}, {"slip": True},
        {"goal_reward": float("nan")}, {"extra": 1}, {"name": 7}, {"name": "x" * 100},
    ],
)  # fmt: skip
def test_bad_worlds_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(MdpfnError):
        World.from_json({**World(("S.G",)).to_json(), **change})


def test_presets_and_boards_fit_their_mdps() -> None:
    for world in PRESETS:
        assert optimal_q(world.mdp(0.95)).max() > 0, f"nothing is to be gained in {world.name}"
    for name, environment in ENVIRONMENTS.items():
        mdp = environment.build()
        board = Board.of_environment(name, mdp)
        assert len(board.cells) == len(set(board.cells)) == len(board.labels) == len(board.marks) == mdp.n_states, name
        assert len(board.actions) == mdp.n_actions, name


def test_the_page_shows_what_solve_does() -> None:
    world = World(("S..", ".#.", "..G"), slip=0.2)
    session = Session(Scene.from_json(world.to_json()), Settings(budget=8, seed=3, race=("r-max",)))
    while not session.done:
        session.advance(5)
    agent = Agent.from_pretrained()
    agent.solve(TabularEnv(world.mdp(0.95), horizon=world.horizon), 8, seed=3)
    assert session.runners[0].problem.history.returns == agent.problem.history.returns
    assert session.frame()["runners"][0]["greedy"] == agent.plan().greedy.tolist()
    assert session.best == pytest.approx(optimal_q(world.mdp(0.95)).max(axis=1)[0])


# ---- the server -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played() -> Iterator[Served]:
    with serving("play", "--no-browser") as served:
        yield served


def post(address: str, content: Any, **headers: str) -> tuple[int, Any]:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        return error.code, json.loads(text) if text.startswith("{") else text


def test_without_the_token_nothing_is_answered(played: Served) -> None:
    root = played.address.rsplit("/", 2)[0]
    for path in ("/", "/wrong/", "/wrong/worlds"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(root + path, timeout=10)
        assert refused.value.code == 403
        refused.value.close()
    assert post(root + "/wrong/sessions", {"world": "taxi"})[0] == 403
    assert post(played.address + "sessions", {"world": "taxi"}, Host="evil.example")[0] == 400


def test_bad_requests_get_a_sentence(played: Served) -> None:
    world = World(("S.G",)).to_json()
    bad: list[Any] = [b"{", b"[]", b"[" * 30_000, {"world": None}, {"world": "atlantis"}]
    bad += [{"world": {**world, "slip": 7}}]
    wrong = ({"budget": 10**9}, {"race": ["me"]}, {"risk": 0.0001}, {"discount": 1}, {"more": 1}, [])
    bad += [{"world": world, "settings": given} for given in wrong]
    for content in bad:
        status, answer = post(played.address + "sessions", content)
        assert (status, list(answer)) == (400, ["error"]), content
    assert post(played.address + "sessions", b" " * 70_000)[0] == 413
    assert post(played.address + "logs", b"not,a,log\n1,2,3\n")[0] == 400
    assert post(played.address + "sessions/none/advance", {"steps": 1})[0] == 410


def test_sessions_make_room(played: Served) -> None:
    content = {"world": World(("S.G",)).to_json()}
    keys = [post(played.address + "sessions", content)[1]["session"] for _ in range(MOST_SESSIONS + 1)]
    alive = [post(f"{played.address}sessions/{key}/advance", {"steps": 1})[0] for key in keys]
    assert alive == [410] + [200] * MOST_SESSIONS


def test_a_log_shows_its_policy(played: Served, tmp_path: Path) -> None:
    log = "state,action,reward,next_state\n" + "home,go,1.0,away\naway,back,0.0,home\nhome,stay,0.0,home\n" * 9
    status, answer = post(played.address + "logs", log.encode())
    assert status == 200
    assert answer["board"]["labels"] == ["home", "away"]
    ours = answer["frame"]["runners"][0]
    assert answer["board"]["actions"][ours["greedy"][0]] == "go"
    known = post(f"{played.address}sessions/{answer['session']}/explain", {"state": 0})[1]
    assert sum(action["visits"] for action in known["actions"]) == 18
    assert all(low <= high for low, high in (a["q"] for a in known["actions"]))
    advance, agent = f"{played.address}sessions/{answer['session']}/advance", Agent.from_pretrained()
    (tmp_path / "log.csv").write_text(log)
    with pytest.warns(CoverageWarning):
        agent.fit(tmp_path / "log.csv")
    for risk in (0.1, 0.9, None):  # the plan changes at once
        (shown,) = post(advance, {"risk": risk})[1]["runners"]
        assert shown["greedy"] == agent.plan(risk=risk).greedy[:2].tolist()
    assert post(advance, {"risk": 7})[0] == 400


def test_worlds_open_from_files_and_links(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(json.dumps(World(("S.G",)).to_json()))
    fragment = shared_fragment(str(tmp_path / "w.json"))
    assert shared_fragment("http://127.0.0.1:1/abc/" + fragment) == fragment
    (tmp_path / "bad.json").write_text("{")
    for path in ("bad.json", "none.json"):
        with pytest.raises(MdpfnError):
            shared_fragment(str(tmp_path / path))


# ---- the page -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, played: Served) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(30_000)
    page.goto(played.address)
    page.wait_for_selector("[data-state='0']")
    yield page
    context.close()
    assert not errors


def fast(page: Any) -> None:
    page.locator("#speed").fill("4")


def until(page: Any, text: str) -> str:
    """The sentence, as soon as it holds a text."""
    page.locator("#sentence", has_text=text).wait_for()
    return str(page.inner_text("#sentence"))


def open_json(page: Any, name: str, text: str) -> None:
    page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": text.encode()})


@needs_browser
def test_draw_a_world_and_see_the_goal_reached(page: Any) -> None:
    open_json(page, "w.json", json.dumps(World(("S....", ".....", ".....")).to_json()))
    page.locator("[data-state='24']").wait_for(state="detached")
    for brush, place in (("wall", "0,2"), ("wall", "1,2"), ("pit", "1,4"), ("ice", "2,1"), ("goal", "0,4")):
        page.click(f"[data-brush='{brush}']")
        page.click(f"[data-place='{place}']")
        page.wait_for_timeout(50)
    page.locator(".board .goal").wait_for()
    assert page.locator(".board .wall").count() == 2
    assert page.locator(".board .pit").count() == page.locator(".board .iced").count() == 1
    page.click("[data-brush='look']")
    fast(page)
    page.click("#run")
    sentence = until(page, "After 30 episodes")
    assert "as good as any can be" in sentence
    points = page.get_attribute(".board .trace", "points").split()
    assert points[-1] == "4.5,0.5"  # the last episode ended in the goal
    page.hover("[data-place='0,3']")
    page.locator("#known tr.best").wait_for()
    assert "It would choose right" in page.inner_text("#known")
    with page.expect_download() as download:
        page.click("#save")
    saved = World.from_json(json.loads(Path(download.value.path()).read_text()))
    assert saved.rows == ("S.#.G", "..#.X", ".~...")


@needs_browser
def test_keys_alone_are_enough(page: Any) -> None:
    page.focus("[data-state='0']")
    page.keyboard.press("ArrowRight")
    page.locator("#known", has_text="Row 1, column 2").wait_for()
    page.focus("body")
    page.keyboard.press("s")
    until(page, "Episode 1 of 30")
    page.keyboard.press("e")
    until(page, "Episode 2 of 30")
    page.focus("[data-place='0,0']")
    page.keyboard.press("1")  # the wall; whoever is on the board stays there
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("rect.wall[data-place='0,1']").wait_for()
    page.wait_for_timeout(600)  # the world is learned anew by now
    assert page.evaluate("document.activeElement.dataset.place") == "0,1"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("2")  # floor: walls can be drawn away
    page.keyboard.press("Enter")
    page.locator(".cell[data-place='0,1']").wait_for()
    page.keyboard.press(" ")
    page.locator("#run", has_text="Pause").wait_for()


@needs_browser
def test_settings_changed_at_once_end_where_it_was_and_another_world_does_not_wait(page: Any) -> None:
    open_json(page, "w.json", json.dumps(World(("S..", ".#.", "..G")).to_json()))
    page.locator(".board [data-place='2,2']").wait_for()
    fast(page)
    page.click("#run")
    until(page, "After 30 episodes")
    page.evaluate("for (const at of ['0.9', '0.91', '0.92']) { discount.value = at; discount.onchange(); }")
    page.wait_for_timeout(300)
    until(page, "After 30 episodes")
    page.click("#race")
    page.select_option("#worlds", "gym-frozen-lake-4x4")
    until(page, "it knows nothing of this world yet")
    page.wait_for_timeout(500)
    assert "it knows nothing of this world yet" in page.inner_text("#sentence")


@needs_browser
def test_a_log_is_shown_by_its_names(page: Any) -> None:
    rows = "home,wander off,1.0,away\naway,return,0.0,home\nhome,stay,0.0,home\n" * 9
    log = "state,action,reward,next_state\n" + rows
    open_json(page, "log.csv", log)
    until(page, "A log of 27 transitions")
    assert page.locator(".board .name").all_text_contents() == ["home", "away"]
    assert page.locator(".board .letters").all_text_contents()[0] == "wander off"
    assert page.locator("#worlds").input_value() == "log"
    assert all(page.locator(f"#{setting}").is_disabled() for setting in ("budget", "discount", "slip", "run", "link"))


@needs_browser
def test_what_was_done_is_no_alarm(page: Any) -> None:
    page.click("#link")
    page.locator("#message.done").wait_for()
    open_json(page, "w.json", "{")
    page.locator("#message:not(.done)", has_text="no JSON").wait_for()


@needs_browser
def test_race_then_settings_then_reload(page: Any, played: Served) -> None:
    open_json(page, "w.json", json.dumps(World(("S..", ".#.", "..G")).to_json()))
    page.locator(".board [data-place='2,2']").wait_for()
    page.locator("#budget").fill("10")
    page.click("#race")
    page.locator("#boards.race figure").nth(4).wait_for()
    fast(page)
    page.click("#run")
    sentence = until(page, "After 10 episodes")
    assert all(name in sentence for name in ("R-MAX", "UCB-VI", "PSRL", "Q-learning"))
    assert page.locator("#worth path").count() == page.locator("#earned path").count() == 5
    page.locator("#slip").fill("0.3")  # another world: learned again at once, as far as it was
    page.wait_for_timeout(300)
    until(page, "After 10 episodes")
    before = page.inner_text("#sentence")
    page.reload()
    until(page, "After 10 episodes")
    assert page.inner_text("#sentence") == before
    assert page.locator("#boards figure").count() == 5
    assert page.input_value("#slip") == "0.3"
    page.locator("#risk").fill("0.1")
    page.locator("#risk + output", has_text="careful").wait_for()


@needs_browser
def test_what_is_bad_is_refused_and_the_world_stays(page: Any) -> None:
    world = World(("S.G",)).to_json()
    for name, text in (
        ("w.json", "{"), ("w.json", "[1]"), ("log.csv", "a,b\n1,2\n"),
        ("w.json", json.dumps({**world, "rows": ["S" * 99]})),
        ("w.json", json.dumps({**world, "name": "<img src=x onerror=alert(1)>", "rows": ["<script>"]})),
    ):  # fmt: skip
        open_json(page, name, text)
        page.locator("#message:not(:empty)").wait_for()
        assert page.locator("[data-state]").count() > 20
        page.click("#restart")
        page.locator("#message:empty").wait_for(state="attached")


@needs_browser
def test_two_tabs_do_not_disturb_each_other(page: Any, played: Served) -> None:
    other = page.context.new_page()
    other.goto(played.address)
    other.wait_for_selector("[data-state='0']")
    other.select_option("#worlds", "gym-frozen-lake-4x4")
    other.locator("[data-place='3,3']").wait_for()
    page.click("#episode")
    until(page, "Episode 2 of 30")
    assert "knows nothing" in other.inner_text("#sentence")
    fast(other)
    other.click("#run")
    until(other, "After 30 episodes")
    assert "Episode 2 of 30" in page.inner_text("#sentence")


@needs_browser
def test_phone_width_needs_no_sideways_scrolling(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    below = page.evaluate("[known, curves].map(one => one.getBoundingClientRect().top)")
    assert below == sorted(below)  # what is known of a cell is said beneath the board


@needs_browser
def test_a_stopped_server_is_said_and_nothing_breaks(browser: Any) -> None:
    with serving("play", "--no-browser") as served:
        page = browser.new_page()
        page.goto(served.address)
        page.wait_for_selector("[data-state='0']")
        page.click("#run")
        until(page, "Episode 1 of 30: it has seen")
        assert served.stop(signal.SIGINT) == 0
        until(page, "The server has stopped")
        assert page.inner_text("#run") == "Run"
        page.close()
