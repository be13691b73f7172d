"""A run that is looked at while it goes: run.http, `paceline top`, and what a server shows on a terminal. See harness.py."""

import http.client
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import harness
from harness import DaemonTest

SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^}]*\})?) (\S+)$")
HTTP = "run.http=127.0.0.1:0"  # a port that the system chooses: the log says which


class Terminal:
    """A program whose standard streams are a terminal of 60 columns and 20 rows."""

    def __init__(self, *command):
        pid, self._fd = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm"
            subprocess.run(["stty", "cols", "60", "rows", "20"], check=False)
            os.execv(command[0], [str(part) for part in command])
        self.pid = pid
        self.shown = ""

    def wait_for(self, pattern):
        """Until it has shown what matches; that, and all before it."""
        deadline = time.monotonic() + harness.DEADLINE
        while not re.search(pattern, self.shown):
            if time.monotonic() > deadline or not select.select([self._fd], [], [], harness.DEADLINE)[0]:
                raise AssertionError(f"'{pattern}' was not shown: {self.shown!r}")
            try:
                self.shown += os.read(self._fd, 65536).decode(errors="replace")
            except OSError:  # it has ended
                raise AssertionError(f"ended before '{pattern}': {self.shown!r}") from None
        return self.shown

    def end(self):
        """Waits for the end; its exit status."""
        while select.select([self._fd], [], [], harness.DEADLINE)[0]:
            try:
                self.shown += os.read(self._fd, 65536).decode(errors="replace")
            except OSError:
                break
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Live(DaemonTest):
    """The endpoint of a real run."""

    def start_training(self, *overrides):
        """With an endpoint, whose address is known then."""
        servers, nodes = super().start_training(HTTP, *overrides)
        self.address = self.http_address()
        return servers, nodes

    def get(self, path):
        connection = http.client.HTTPConnection(self.address, timeout=harness.DEADLINE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def statuses(self):
        """Those that the server sends while somebody listens."""
        connection = http.client.HTTPConnection(self.address, timeout=harness.DEADLINE)
        try:
            connection.request("GET", "/events")
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    yield json.loads(line[len(b"data: "):])
        finally:
            connection.close()

    def first_status(self, is_it):
        """The first one of which that is so; fails when none has come by the deadline."""
        deadline = time.monotonic() + harness.DEADLINE
        for status in self.statuses():
            if is_it(status):
                return status
            self.assertLess(time.monotonic(), deadline, status)
        raise AssertionError("the server has ended before such a status")

    def counters(self):
        code, text = self.get("/metrics")
        self.assertEqual(code, 200)
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        samples = [SAMPLE.match(line) for line in text.splitlines() if not line.startswith("#")]
        self.assertNotIn(None, samples)
        return {name: float(value) for name, value in (found.groups() for found in samples)
                if types[name.split("{")[0]] == "counter"}

    def stop(self, servers, nodes):
        servers[0].send(signal.SIGTERM)
        for program in servers + nodes:
            program.end()

    def test_the_endpoint_tells_how_the_run_goes_and_its_counters_only_grow(self):
        servers, nodes = self.start_training()
        before = self.counters()
        versions = []
        for status in self.statuses():
            if status["state"] != "training":  # of before it began
                self.assertEqual(versions, [], status["state"])
                continue
            versions.append(status["version"])
            if len(versions) == 4:
                break
        self.assertEqual(versions, sorted(versions))
        self.assertGreater(versions[-1], versions[0])
        after = self.counters()
        self.assertEqual([name for name in before if after[name] < before[name]], [])
        self.assertGreater(after["paceline_iterations_total"], before["paceline_iterations_total"])
        self.assertGreater(after["paceline_samples_total"], 0)

        code, text = self.get("/status")
        status = json.loads(text)
        self.assertEqual((code, len(status["workers"]), status["threshold"]), (200, 4, 0))
        self.assertTrue(all(node["up"] for node in status["nodes"]))
        self.assertEqual(self.get("/healthz"), (200, "ok\n"))
        status = self.first_status(lambda s: all("wall_ns" in worker for worker in s["workers"]))
        for worker in status["workers"]:
            self.assertEqual(len(worker["phases_ns"]), 9)
            self.assertLessEqual(sum(worker["phases_ns"]), 1.02 * worker["wall_ns"])
        self.assertEqual([staleness for staleness, _ in status["staleness"]["clocks"]], [0])  # bsp
        code, page = self.get("/")
        self.assertEqual(code, 200)
        self.assertIn("connect-src 'self'", page)
        self.assertTrue(json.loads(self.get("/data.json")[1])["live"])
        self.assertEqual(self.get("/../../etc/passwd")[0], 404)
        self.stop(servers, nodes)

    def test_who_is_missing_is_told_before_the_run_begins_and_how_it_ended_at_its_end(self):
        server = self.server(0, HTTP)
        self.address = self.http_address()
        listening = self.statuses()
        first = next(listening)
        self.assertEqual(first["state"], "gathering")
        self.assertIn("node 0, node 1 have not joined", first["waits"][0])
        server.send(signal.SIGTERM)
        last = list(listening)[-1]
        self.assertEqual(last["state"], "over")
        self.assertIn("stopped", last["outcome"])
        server.end()

    def test_top_prints_a_table_once_where_it_is_no_terminal(self):
        servers, nodes = self.start_training()
        self.first_status(lambda status: status["state"] == "training")
        for arguments in ([self.address], [f"http://{self.address}/", "--once"]):
            shown = self.paceline("top", *arguments)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertRegex(shown.stdout, r"^run: training  policy bsp  [\d:]+  2 of 2 nodes  \d+ of 100000000 iterations\n"
                                           r"version \d+  clock [\d.]+  gap \d/0")
            self.assertEqual(len(re.findall(r"^[01]\.[01]  ", shown.stdout, re.M)), 4, shown.stdout)
            self.assertNotIn("\033", shown.stdout)
        self.stop(servers, nodes)
        gone = self.paceline("top", self.address)
        self.assertEqual((gone.returncode, gone.stdout), (1, ""))
        self.assertEqual(gone.stderr, f"paceline top: {self.address}: Connection refused\n")
        self.assertEqual(self.paceline("top", "nowhere").returncode, 2)

    def test_top_follows_the_run_on_a_terminal_until_it_is_over(self):
        servers, nodes = self.start_training()
        top = Terminal(harness.BIN / "paceline", "top", self.address)
        shown = top.wait_for(r"(?s)worker .*\033\[H.*worker ")  # twice
        self.assertIn("run: training", shown)
        self.stop(servers, nodes)
        self.assertEqual(top.end(), 0)
        for line in re.sub(r"\033\[\d*[HJK]", "", top.shown).split("\n"):
            self.assertLessEqual(len(line.rstrip("\r")), 60)

    def test_on_a_terminal_a_server_shows_two_lines_of_the_run_and_one_of_each_node_and_rewrites_them(self):
        server = Terminal(harness.BIN / "paceline-server", self.config, "--shard", "0")
        self.assertNotIn("\n", server.wait_for("gathering: training has not begun: node 0"))
        nodes = [self.node(i) for i in range(2)]
        rewritten = r"\r\033\[J[1-9]\d*(\.\.\d+)? gap [^\r\n]*\r\n[^\r\n]*" + "".join(
            rf"\r\nnode {i}  clock [1-9][^\r\n]*([A-Z_]+ \d+ %|…)[^\r\n]*" for i in range(2)) + r"\r\033\[3A"  # … where workers are slow
        server.wait_for(f"({rewritten}){{2}}")
        os.kill(server.pid, signal.SIGTERM)
        server.wait_for(r"\033\[3A\r\033\[Jpaceline-server: stopping: stopped by a signal")
        for node in nodes:
            node.end()
        self.assertEqual(server.end(), 1)
        for shown in re.split(r"(?:\r\033\[3A)?\r\033\[J|\r\n", server.shown):
            if not shown.startswith("paceline-server"):
                self.assertLess(len(shown), 60)

    def test_a_straggler_has_a_name_everywhere(self):
        slow = {"1.0", "1.1"}
        servers, nodes = self.start_training("sync.policy=asp", "emulate.base_step=100ms",
                                             "emulate.slowdown=[1, 4]", "run.straggler_warning=0.5")
        warned = servers[0].wait_for_line(r"worker 1\.\d has become slow")
        self.assertRegex(warned, r"it computes [\d.]+ ms an iteration, 0\.\d\d of the fastest worker's speed, [\d.]+ of its own best "
                                 r"\(run.straggler_warning 0.50\)$")
        # A busy machine may make the others slow, too, now and then.
        status = self.first_status(lambda s: slow <= set(s["stragglers"]))
        scores = {worker["worker"]: worker["relative_score"] for worker in status["workers"] if worker["worker"] in slow}
        self.assertTrue(all(0.05 < score < 0.6 for score in scores.values()), scores)
        self.stop(servers, nodes)
        self.assertLessEqual(slow, {straggler["worker"] for straggler in self.summary()["stragglers"]})
        self.assertRegex(self.paceline("report", self.run_dir).stdout, r"straggler 1\.\d: computed \d+\.\d+ ms an iteration at last")


if __name__ == "__main__":
    harness.main()
