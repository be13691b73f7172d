"""A headless Chromium, driven by chromedriver over the W3C WebDriver protocol: JSON over HTTP on the loopback address, for
which Python's own library is enough. Nothing leaves the machine, and a page that tries is found out by requests()."""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "daemons"))
import harness

DEADLINE = 60.0  # seconds for one command
SCRIPT_DEADLINE_MS = 55_000  # for a condition in the page; without it 30 s
HELPER_ENDS = 5.0  # seconds that a helper of the browser may need to end after it
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-dev-shm-usage",
         "--no-proxy-server", "--hide-scrollbars")

# Where these figures are in the page, and some room.
PLACE = """
  const boxes = arguments[0].map((id) => document.getElementById(id).getBoundingClientRect());
  const place = (edge, room) => Math.round(edge + window.scrollY + room);
  return [place(Math.min(...boxes.map((box) => box.top)), -12), place(Math.max(...boxes.map((box) => box.bottom)), 12)];"""
# For Browser.evaluate(): opens the <details> that arguments[0] selects; the texts of its table, row by row.
TABLE = """
  const details = document.querySelector(arguments[0]);
  details.open = true;
  return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(
      [...details.querySelectorAll('tr')].map((row) => [...row.cells].map((cell) => cell.textContent))))));"""


def missing():
    """The programs that are not installed."""
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


class Browser:
    """One window. Use as a context; the processes are gone afterwards."""

    def __enter__(self):
        self._folder = pathlib.Path(harness.temporary_folder())
        self._session = None
        # It takes a port that is free under one address family, and ends where another program has it under the other.
        port = self._start_driver() or self._start_driver() or self._start_driver()
        if port is None:
            raise AssertionError("chromedriver has ended three times without naming its port")
        self._address = f"http://127.0.0.1:{port}"
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_driver(self):
        """Its port; None where it has ended."""
        self._driver = subprocess.Popen(["chromedriver", "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "HOME": str(self._folder)})
        for line in self._driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                return found.group(1)
        self._driver.wait()
        self._driver.stdout.close()
        return None

    def _open(self):
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        options = {"binary": shutil.which("chromium"), "args": [*FLAGS, f"--user-data-dir={self._folder}/profile"]}
        session = self._send("POST", "/session", {"capabilities": {"alwaysMatch": {
            "timeouts": {"script": SCRIPT_DEADLINE_MS},
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self._session = f"/session/{session['sessionId']}"

    def __exit__(self, *_):
        started = harness.descendants_of(self._driver.pid)
        try:
            if self._session:
                self._send("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait()
            self._driver.stdout.close()
            for pid in started:  # helpers that take a moment longer; they are this process's children now
                if not harness.wait_for_exit(pid, HELPER_ENDS):
                    os.kill(pid, signal.SIGKILL)
            for pid in harness.children():
                if pid in started:
                    os.waitpid(pid, 0)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self._http.open(request, timeout=DEADLINE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            output = json.load(error)["value"]
            raise AssertionError(f"{method} {path}: {output['error']}: {output['message'].splitlines()[0]}") from None

    # ---- the window

    def devtools(self, command, **parameters):
        return self._send("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def show(self, file, width=1100, dark=False):
        """Opens a file of this machine; as visit()."""
        self.visit(pathlib.Path(file).resolve().as_uri(), width, dark)

    def visit(self, address, width=1100, dark=False):
        """Opens an address and waits until it is loaded; with it go what log() and requests() had."""
        self.resize(width, dark)
        self._log("browser")
        self._log("performance")
        self._send("POST", f"{self._session}/url", {"url": address})

    def resize(self, width, dark=False):
        """The page that is open, in another window and theme."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.set_dark(dark)

    def set_dark(self, dark):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, script, *arguments):
        """What the body of a function returns in the page."""
        return self._send("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def _log(self, kind):
        return self._send("POST", f"{self._session}/se/log", {"type": kind})

    def log(self):
        """What the page has written to its console, errors of the browser's own included."""
        return [f"{entry['level']}: {entry['message']}" for entry in self._log("browser")]

    def requests(self):
        """Every address that the page has asked for."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, file, top=None, figures=()):
        """Of the whole page, as high as it is, or of its first pixels, or of these figures, from the first one to the last."""
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        begin, end = self.evaluate(PLACE, figures) if figures else (0, min(top or size["height"], size["height"]))
        clip = {"x": 0, "y": begin, "width": size["width"], "height": end - begin, "scale": 1}
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        pathlib.Path(file).write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, file):
        pathlib.Path(file).write_bytes(base64.b64decode(self._send("POST", f"{self._session}/print", {"background": True})))
