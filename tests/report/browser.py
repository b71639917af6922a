"""A headless Chromium, told what to do over a pipe (the Chrome DevTools Protocol)."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


def find():
    """The program's path, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Page:
    """One page. Everything it complains about is in `complaints`."""

    def __init__(self, program, width=1600, height=1000):
        self.folder = tempfile.mkdtemp(prefix="stagecraft-browser-")
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()

        def connect():
            # The browser reads from descriptor 3 and writes to 4.
            in_place, out_place = os.dup(to_browser), os.dup(from_browser)
            os.dup2(in_place, 3)
            os.dup2(out_place, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={self.folder}", f"--window-size={width},{height}",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.pending = b""
        self.number = 0
        self.session = None
        self.complaints = []
        self.requests = []
        self.events = []
        target = next(t for t in self.wait_for_targets() if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.resize(width, height)

    def wait_for_targets(self):
        for _ in range(100):
            targets = self.call("Target.getTargets")["targetInfos"]
            if any(t["type"] == "page" for t in targets):
                return targets
            time.sleep(0.05)
        raise RuntimeError("the browser opens no page")

    def message(self):
        while b"\0" not in self.pending:
            part = os.read(self.read, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.pending += part
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        method, given = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
            self.complaints.append(str([a.get("value") for a in given["args"]]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        self.events.append(method)

    def call(self, method, **parameters):
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write, json.dumps(command).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)

    def dark(self, is_dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])

    def open(self, path):
        self.events.clear()
        self.requests.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while "Page.loadEventFired" not in self.events:
            self.note(self.message())

    def evaluate(self, script):
        """The value of an expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))

    def printed_pages(self):
        """How many sheets it takes."""
        data = base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True,
                                          printBackground=True)["data"])
        return data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") or data.count(b"/Type/Page/")

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True,
                                                  printBackground=True)["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except RuntimeError:
            pass
        os.close(self.write)
        os.close(self.read)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
