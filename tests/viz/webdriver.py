"""Drives a headless Chromium as a user would. Implements the part of the WebDriver protocol that the tests
of the views need, with only Python's standard library. Requires chromium and chromedriver (Debian's packages
chromium and chromium-driver)."""
import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Shift": "\ue008", "Control": "\ue009", "Space": "\ue00d",
        "End": "\ue010", "Home": "\ue011", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
        "ArrowRight": "\ue014", "ArrowDown": "\ue015"}


class Failed(Exception):
    """The driver reported an error."""


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="brasa-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            port = re.search(r"on port (\d+)", line)
            if port and int(port[1]):
                break
        self.base = f"http://127.0.0.1:{port[1]}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1",
                     "--window-size=1300,1000", f"--user-data-dir={self.profile}",
                     "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"]
        options = {"args": arguments, "binary": shutil.which("chromium")}
        asked = {"goog:chromeOptions": options,
                 "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        made = self._request("POST", self.base, {"capabilities": {"alwaysMatch": asked}})
        self.base += "/" + made["sessionId"]

    def close(self):
        try:
            self._request("DELETE", self.base)
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.profile, ignore_errors=True)

    # ---- The protocol ----

    @staticmethod
    def _request(method, url, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Failed(json.load(error)["value"]["message"].splitlines()[0]) from None

    def get(self, path):
        return self._request("GET", f"{self.base}/{path}")

    def post(self, path, **body):
        return self._request("POST", f"{self.base}/{path}", body)

    def script(self, text, *arguments):
        arguments = [{ELEMENT: a.id} if isinstance(a, Element) else a for a in arguments]
        return self._wrap(self.post("execute/sync", script=text, args=arguments))

    def _wrap(self, value):
        if isinstance(value, dict) and ELEMENT in value:
            return Element(self, value[ELEMENT])
        return [self._wrap(v) for v in value] if isinstance(value, list) else value

    # ---- User actions ----

    def open(self, path):
        self.requests()
        self.post("url", url=path.absolute().as_uri())

    def find(self, css):
        found = self.all(css)
        if not found:
            raise Failed(f"no element {css}")
        return found[0]

    def all(self, css):
        return self.script("return [...document.querySelectorAll(arguments[0])]", css)

    def frame(self):
        """Waits until the page is drawn."""
        self.post("execute/async", args=[], script="const done = arguments[0];"
                  "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))")

    def wait(self, css, seconds=60):
        """Waits until there is such an element."""
        end = time.monotonic() + seconds
        while not self.all(css):
            if time.monotonic() > end:
                raise Failed(f"no element {css}")
            time.sleep(0.02)
        self.frame()

    def inside(self, frame):
        """Switches to the document of an iframe."""
        self.post("frame", id={ELEMENT: frame.id})

    def point(self, element=None, x=0, y=0, presses=0, pause=20):
        """Moves the pointer to (x, y) relative to the element's centre, and clicks the given number of times."""
        origin = {ELEMENT: element.id} if element else "viewport"
        if element:
            self.script("arguments[0].scrollIntoView({ block: 'nearest', inline: 'nearest' })", element)
        moves = [{"type": "pointerMove", "duration": 0, "origin": origin, "x": x, "y": y}]
        for _ in range(presses):
            moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0},
                      {"type": "pause", "duration": pause}]
        self.post("actions", actions=[{"type": "pointer", "id": "mouse", "actions": moves}])
        self.frame()

    def key(self, *names):
        """Presses the keys at the same time."""
        keys = [KEYS.get(name, name) for name in names]
        actions = [{"type": "keyDown", "value": k} for k in keys]
        actions += [{"type": "keyUp", "value": k} for k in reversed(keys)]
        self.post("actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])
        self.frame()

    def click_with(self, key, element):
        """Clicks an element while a key is pressed."""
        keyboard = [{"type": "keyDown", "value": KEYS[key]}, {"type": "pause"}, {"type": "pause"},
                    {"type": "pause"}, {"type": "keyUp", "value": KEYS[key]}]
        origin = {ELEMENT: element.id}
        mouse = [{"type": "pause"}, {"type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0},
                 {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.post("actions", actions=[{"type": "key", "id": "keyboard", "actions": keyboard},
                                      {"type": "pointer", "id": "mouse", "actions": mouse}])
        self.frame()

    def resize(self, width, height):
        self.post("window/rect", width=width, height=height)
        self.frame()

    # ---- Chromium's own commands ----

    def command(self, name, **parameters):
        return self.post("goog/cdp/execute", cmd=name, params=parameters)

    def screen(self, width, height, media=""):
        """Emulates a screen, which may be narrower than a window, and optionally the medium "print"."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=False)
        self.command("Emulation.setEmulatedMedia", media=media)
        self.frame()

    def no_screen(self):
        self.command("Emulation.clearDeviceMetricsOverride")
        self.command("Emulation.setEmulatedMedia", media="")
        self.frame()

    def downloads_to(self, folder):
        self.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.get("screenshot")))

    # ---- The browser's logs ----

    def complaints(self):
        return [entry["message"] for entry in self.post("se/log", type="browser")]

    def requests(self):
        """Returns the addresses requested since the last call."""
        events = [json.loads(e["message"])["message"] for e in self.post("se/log", type="performance")]
        return [e["params"]["request"]["url"] for e in events
                if e["method"] == "Network.requestWillBeSent"]


class Element:
    def __init__(self, browser, name):
        self.browser, self.id = browser, name

    def _js(self, text, *arguments):
        return self.browser.script("const [e, ...a] = arguments; " + text, self, *arguments)

    def find(self, css):
        found = self.all(css)
        if not found:
            raise Failed(f"no element {css} in this element")
        return found[0]

    def all(self, css):
        return self._js("return [...e.querySelectorAll(a[0])]", css)

    @property
    def text(self):
        return self._js("return e.textContent")

    @property
    def shown(self):
        """Returns whether the element takes space on the page."""
        return self._js("return e.isConnected && e.getClientRects().length > 0")

    @property
    def box(self):
        return self._js("const b = e.getBoundingClientRect();"
                        "return { x: b.x, y: b.y, width: b.width, height: b.height }")

    def attribute(self, name):
        return self._js("return e.getAttribute(a[0])", name)

    def style(self, name):
        return self._js("return getComputedStyle(e).getPropertyValue(a[0])", name)

    def point(self, x=0, y=0):
        self.browser.point(self, x, y)

    def click(self, x=0, y=0):
        self.browser.point(self, x, y, presses=1)

    def double_click(self):
        self.browser.point(self, presses=2)

    def choose(self, text):
        """Selects an option of a select element by its text."""
        self._js("""const wanted = [...e.options].findIndex(o => o.textContent === a[0]);
                    if (wanted < 0) throw new Error('no option ' + a[0]);
                    e.selectedIndex = wanted;
                    e.dispatchEvent(new Event('change', { bubbles: true }))""", text)
        self.browser.frame()

    def options(self):
        return self._js("return [...e.options].map(o => o.textContent)")

    def pixels(self, x, y, width, height):
        """Returns [r, g, b, a] of each pixel of a canvas, row by row."""
        flat = self._js("return [...e.getContext('2d').getImageData(a[0], a[1], a[2], a[3]).data]",
                        round(x), round(y), width, height)
        return [flat[i:i + 4] for i in range(0, len(flat), 4)]
