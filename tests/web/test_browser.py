"""Every page and every action in a real browser, on a desktop and on a phone, in light and in dark.

`pytest tests/web/test_browser.py --pictures` writes the pictures of docs/assets/dashboard anew.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from lonnymq import Queue
from lonnymq.web import create_app
from lonnymq.web.pages.render import MENU
from tests.web.browser import PICTURES, Tab, opened_tab, served, started_browser
from tests.web.conftest import access_by_header
from tests.web.filled_queue import RETRIED_ID_ERROR, SLOW, WORKER, fill, flood, served_all_the_time

pytestmark = [pytest.mark.debian("chromium"), pytest.mark.slow]

DETAILS = (
    "/tenant?name=acme",
    f"/tenant?name={SLOW}",
    f"/worker?name={WORKER}",
    "/batch?id=1",
    "/nothing-here",
)
ONE_OF_EACH_KIND = {"/", "/fairness", "/tenants", "/tenant?name=acme"}
"""Numbers, charts, a table, and forms."""
PICTURED = {
    "overview": "/",
    "fairness": "/fairness",
    "tenants": "/tenants",
    "tenant": f"/tenant?name={SLOW}",
    "dead": "/dead",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(queue: Queue) -> Iterator[str]:
    fill(queue)
    app = create_app(queue, access=access_by_header, trace_url="https://traces.example/{trace_id}")
    with served(app) as address:
        yield address
    app.close()


@pytest.fixture(scope="module")
def ids(queue: Queue) -> dict[str, int]:
    """Messages in every state."""
    found = {state: queue.messages(channel="acme", status=state)[0].id for state in ("due",)}
    found["scheduled"] = queue.messages(channel="wayne", status="scheduled")[0].id
    found["leased"] = queue.messages(status="leased")[0].id
    found["dead"] = queue.dead.list(channel="acme")[0].id
    found["completed"] = next(one for one in queue.history(channel="acme") if one.outcome == "completed").id
    return found


EVERY_STATE = ["due", "scheduled", "leased", "dead", "completed"]


@pytest.mark.parametrize(
    ("phone", "dark", "states", "accessible"),
    [
        (False, False, ["leased", "dead"], None),
        (True, True, ["dead"], ONE_OF_EACH_KIND),
        pytest.param(False, True, EVERY_STATE, None, marks=pytest.mark.long),
        pytest.param(True, True, EVERY_STATE, None, marks=pytest.mark.long),
    ],
    ids=["desktop", "phone", "desktop, messages in every state", "phone, messages in every state"],
)
def test_pages(
    browser: Browser,
    address: str,
    ids: dict[str, int],
    phone: bool,
    dark: bool,
    states: list[str],
    accessible: set[str] | None,
) -> None:
    """Messages in different states differ in words only. `accessible`: the pages that are checked for
    accessibility; None means all.
    """
    messages = (f"/message?id={ids[state]}" for state in states)
    paths = [*(link.path for link in MENU), *DETAILS[:-1], *messages]
    assert (accessible or set()) <= set(paths)
    with opened_tab(browser, address, phone=phone, dark=dark) as tab:
        for path in paths:
            tab.open(path)
            expect(tab.page.get_by_role("heading", level=1)).to_be_visible()
            tab.check()
            if accessible is None or path in accessible:
                tab.check_accessibility()
        tab.page.goto(f"{address}{DETAILS[-1]}")
        tab.page.get_by_text("This did not work").wait_for()


def test_pictures(browser: Browser, address: str, queue: Queue, pytestconfig: pytest.Config) -> None:
    """Live numbers reach an open page without a reload."""
    with served_all_the_time(queue), opened_tab(browser, address) as tab:
        tab.open("/fairness")
        tab.page.locator(".ribbon rect, svg rect").first.wait_for(state="attached")
        before = tab.page.locator("#live").inner_text()
        tab.page.wait_for_function("text => document.getElementById('live').innerText !== text", arg=before)
        if pytestconfig.getoption("--pictures"):
            tab.page.set_viewport_size({"width": 1280, "height": 1_000})
            for channel, messages in (("acme", 30_000), ("globex", 3_000), ("wayne", 1_500)):
                flood(queue, channel, messages)
            picture(tab, *PICTURED)
        assert not tab.faults


def picture(tab: Tab, *names: str) -> None:
    tab.page.wait_for_timeout(50_000)  # so that charts have something to show
    PICTURES.mkdir(exist_ok=True)
    for name in names:
        tab.open(PICTURED[name])
        tab.page.wait_for_timeout(1_000)
        tab.page.screenshot(path=PICTURES / f"{name}.png")


def test_by_keyboard(browser: Browser, address: str) -> None:
    with opened_tab(browser, address) as tab:
        tab.open("/workers")
        tab.page.keyboard.press("Tab")
        tab.page.keyboard.press("Enter")  # skip the menu
        for _ in range(20):
            tab.page.keyboard.press("Tab")
            if tab.page.evaluate("document.activeElement.innerText") == "Drain":
                break
        else:
            pytest.fail("Tab does not reach the button")
        tab.page.keyboard.press("Enter")
        expect(tab.page.get_by_role("dialog")).to_contain_text(f"Drain {WORKER}?")
        tab.page.keyboard.press("Escape")
        expect(tab.page.get_by_role("dialog")).to_be_hidden()


def test_tenant_actions(browser: Browser, address: str, queue: Queue) -> None:
    with opened_tab(browser, address) as tab:
        tab.open("/tenant?name=corner-shop")
        tab.do("Pause", sure=True, says="It is paused.")
        assert queue.channel("corner-shop").get().paused
        tab.do("Resume", says="It is served again.")
        assert not queue.channel("corner-shop").get().paused
        change = tab.page.locator("form.action", has_text="Save")
        change.get_by_label("Max concurrency").fill("4")
        change.get_by_label("Rate").fill("20/s")
        change.get_by_label("Weight").fill("2.5")
        tab.do("Save", says="Saved.")
        policy = queue.channel("corner-shop").get()
        assert (policy.max_concurrency, policy.rate, policy.weight) == (4, "20/s", 2.5)
        change.get_by_label("Rate").fill("nonsense")
        tab.do("Save", says="it is not a rate")
        tab.faults.clear()  # the console names the answer 400
        tab.open(f"/tenant?name={SLOW}")
        tab.page.locator("form", has_text="Estimate").get_by_label("Max concurrency").fill("4")
        tab.page.get_by_role("button", name="Estimate").click()
        # Whether there is an estimate depends on how long the messages of `fill` waited.
        expect(tab.page.locator("main")).to_contain_text(
            re.compile("No estimate of waits|recorded", re.IGNORECASE)
        )
        tab.open("/")
        tab.do("Pause the queue", sure=True, says="The queue is paused.")
        assert queue.settings().paused
        tab.do("Resume the queue", sure=True, says="The queue is served again.")
        assert not queue.settings().paused
        tab.check()
    actions = [(one.who, one.action, one.outcome) for one in queue.audit(channel="corner-shop")]
    assert {who for who, _, _ in actions} == {"ann"}
    assert len(actions) == 3  # what was not valid was not tried


def test_message_actions(browser: Browser, address: str, queue: Queue, ids: dict[str, int]) -> None:
    with opened_tab(browser, address) as tab:
        tab.open(f"/message?id={ids['scheduled']}")
        tab.do("Run now", says="due")
        found = queue.get(ids["scheduled"])
        assert found is not None
        assert found.status == "due"
        tab.do("Copy", sure=True, says="The copy is message")
        tab.do("Cancel", sure=True, says="cancelled")
        assert queue.get(ids["scheduled"]) is None
        tab.open(f"/message?id={ids['due']}")
        expect(tab.page.locator("main")).not_to_contain_text("hunter2")
        expect(tab.page.locator("main a[href*='traces.example']")).to_have_attribute(
            "href", "https://traces.example/4bf92f3577b34da6a3ce929d0e0e4736"
        )
        tab.open(f"/message?id={ids['dead']}")
        tab.do("Retry", says="It is due again.")
        assert ids["dead"] not in [one.id for one in queue.dead.list(channel="acme")]


def test_dead_letters(browser: Browser, address: str, queue: Queue) -> None:
    with opened_tab(browser, address) as tab:
        tab.open("/dead")
        tab.page.get_by_role("link", name=RETRIED_ID_ERROR.replace("5", "#")).first.click()
        tab.page.wait_for_url("**/dead/group?*")
        before = len(queue.dead.list())
        tab.do("Dry run: how many?", says="would be retried")
        assert len(queue.dead.list()) == before
        tab.page.locator("form", has_text="how many?").get_by_role("button", name="Retry", exact=True).click()
        tab.page.get_by_role("button", name="Do it").click()
        tab.says("were retried")
        assert len(queue.dead.list()) < before
        tab.open("/dead?channel=wayne")
        tab.do("Discard all dead letters of wayne", sure=True, says="discarded")
        assert queue.dead.list(channel="wayne") == []


def test_other_actions(browser: Browser, address: str, queue: Queue) -> None:
    with opened_tab(browser, address) as tab:
        tab.open("/workers")
        tab.do("Pause", says="Asked to pause.")
        tab.do("Resume", says="Asked to serve again.")
        tab.do("Drain", sure=True, says="Asked to drain.")
        assert queue.workers()[0].requested == "draining"
        tab.open("/schedules")
        tab.do("Run now", sure=True, says="Created message")
        tab.do("Pause", says="Paused.")
        tab.do("Resume", says="Resumed.")
        tab.do("Delete", sure=True, says="Deleted.")
        assert len(queue.schedules()) == 1
        tab.open("/batch?id=1")
        tab.do("Cancel the batch", sure=True, says="cancelled")
        tab.open("/lake")
        tab.do("Forget", sure=True, says="Forgotten.")
        assert queue.followers() == []
        tab.open("/audit")
        expect(tab.page.locator("main")).to_contain_text("batch.cancel")
        tab.check()


def test_a_tenant_sees_itself_only(browser: Browser, address: str) -> None:
    with opened_tab(browser, address, "acme", phone=True) as tab:
        tab.open("/")
        expect(tab.page).to_have_url(f"{address}/tenants")
        tab.check()
        for path in ("/tenant?name=acme", "/messages", "/dead", "/history"):
            tab.open(path)
            expect(tab.page.locator("body")).not_to_contain_text("globex")
            tab.check()
