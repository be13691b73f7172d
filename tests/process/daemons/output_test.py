"""Output that nobody takes costs lines, never a run. See harness.py."""

import fcntl
import os
import signal

import harness
from harness import DaemonTest, ScriptTest

LACKS = r"standard error lacks \d+ lines? so far: "


def full_pipe():
    """A pipe of a page with no room left: its reading end and its writing end."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writes, False)
    try:
        while True:
            os.write(writes, b"x")
    except BlockingIOError:
        pass
    os.set_blocking(writes, True)
    return reads, writes


class Output(DaemonTest):
    """Standard error that is closed, full or gone, and a log without room."""

    def start_with(self, errors_to, *overrides):
        """All daemons of a run, whose error output goes there, once training has begun."""
        programs = [self.start(*command, *overrides, errors_to=errors_to)
                    for command in ((harness.BIN / "paceline-server", self.config),
                                    *((harness.BIN / "paceline-worker", self.config, "--node", i) for i in range(2)))]
        os.close(errors_to)
        self.wait_for_log("server.log", "training begins")
        return programs

    def stop(self, programs):
        """In order; what the server's log says."""
        programs[0].send(signal.SIGTERM)
        self.assertEqual([program.end() for program in programs], [1, 1, 1])
        self.assertEqual(self.summary()["status"], "stopped")
        self.assertEqual(self.paceline("evaluate", self.run_dir).returncode, 0)
        return (self.run_dir / "server.log").read_text(encoding="utf-8")

    def test_a_reader_that_goes_away(self):
        reads, writes = os.pipe()
        programs = self.start_with(writes)
        with os.fdopen(reads, "rb") as lines:
            self.assertRegex(lines.readline().decode(), harness.PROGRESS)
        programs[0].send(signal.SIGUSR1)
        self.wait_for_log("server.log", "asked what it waits for")
        self.assertRegex(self.stop(programs), LACKS + "Broken pipe")

    def test_a_pipe_that_nobody_reads(self):
        reads, writes = full_pipe()
        programs = self.start_with(writes)
        for count in range(1, 4):  # each says something; the loop goes on
            programs[0].send(signal.SIGUSR2)
            self.wait_for_log("server.log", "checkpoint of ")
            self.wait_for_count("is written: ", count)
        self.assertRegex(self.stop(programs), LACKS + "nobody takes them")
        os.close(reads)

    def wait_for_count(self, text, count):
        with harness.FolderWatch(self.run_dir) as watch:
            while (self.run_dir / "server.log").read_text(encoding="utf-8").count(text) < count:
                watch.wait(f"{count} times '{text}'")

    def test_streams_that_are_closed(self):
        programs = [self.start("sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command, "train.total_iterations=200")
                    for command in ((harness.BIN / "paceline-server", self.config),
                                    *((harness.BIN / "paceline-worker", self.config, "--node", i) for i in range(2)))]
        self.assertEqual([program.end() for program in programs], [0, 0, 0])
        self.assertEqual((self.summary()["status"], self.summary()["iterations"]), ("ok", 200))

    def test_a_log_that_takes_nothing_is_said_on_standard_error(self):
        self.run_dir.mkdir()
        (self.run_dir / "worker-0.log").symlink_to("/dev/full")
        servers = [self.server(0, "train.total_iterations=200")]
        nodes = [self.node(0, "train.total_iterations=200", "--resume"), self.node(1, "train.total_iterations=200")]
        self.assert_all_done(servers, nodes, may_speak=nodes[:1])
        self.assertRegex("\n".join(nodes[0].errors()), r"the log \S+/worker-0\.log lacks \d+ lines? so far: No space left")


class ScriptOutput(ScriptTest):
    """The same of the scripts."""

    def test_run_local_before_head(self):
        script = self.start("bash", "-c", '"$@" 2>&1 | head -n 1; exit "${PIPESTATUS[0]}"', "bash",
                            "bash", harness.SOURCE / "scripts/run_local.sh", self.config, "--out", self.run_dir, "--bin",
                            harness.BIN)
        self.wait_for_log("server.log", "training begins")
        run_local = next(pid for pid in harness.children_of(script.pid) if "run_local" in harness.command_of(pid))
        os.kill(run_local, signal.SIGUSR1)  # the server says something, which nobody reads
        self.wait_for_log("server.log", "is written: ")
        os.kill(run_local, signal.SIGTERM)
        self.assertEqual(script.end(), 1)
        self.assertEqual(self.summary()["status"], "stopped")
        self.assertTrue((self.run_dir / "model.bin").exists())


if __name__ == "__main__":
    harness.main()
