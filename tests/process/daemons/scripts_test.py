"""scripts/: what a user starts. See harness.py."""

import os
import re
import shutil
import signal
import socket
from pathlib import Path

import harness
from harness import DaemonTest


class Scripts(DaemonTest):
    """scripts/: what a user starts. Whatever ends a script, its daemons end too."""

    def script(self, name, *arguments):
        """A script on the run's configuration."""
        return self.start("bash", harness.SOURCE / "scripts" / name, *arguments)

    def run_local(self, *arguments):
        return self.script("run_local.sh", self.config, "--out", self.run_dir, "--bin", harness.BIN, *arguments)

    def wait_for_no_children(self, but):
        """Everything that the script started has ended, or is killed here and reported."""
        for pid in harness.children():
            if pid != but.pid:
                self.assertTrue(harness.wait_for_exit(pid), f"still there: {harness.command_of(pid)}")
                os.waitpid(pid, 0)

    def test_run_local_trains_and_prints_the_table(self):
        self.configure(shards=2)
        script = self.run_local("train.total_iterations=100")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(script.errors(), [])
        self.assertIn("all nodes (4 workers)", script.output())
        self.assertIn(f"{self.run_dir}: ok", script.output())
        self.assertEqual(self.summary()["iterations"], 100)

    def test_run_local_stops_in_order_on_one_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                script = self.run_local("--force")
                script.wait_for_line(harness.PROGRESS.pattern)
                script.send(number)
                self.assertEqual(script.end(), 1, script.errors())
                self.assertIn("run_local: stopping (again to end at once)", script.errors())
                self.assertEqual(self.summary()["status"], "stopped")
                self.assertTrue((self.run_dir / "model.bin").exists())
                self.assertEqual(harness.children(), [])

    def test_run_local_ends_at_once_on_the_second_signal(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        for pid in harness.children_of(script.pid):
            if b"paceline-worker" in harness.command_of(pid).encode():
                os.kill(pid, signal.SIGSTOP)  # the orderly end has to wait for them
        script.send(signal.SIGTERM)
        script.wait_for_line("stopping")
        script.send(signal.SIGTERM)
        self.assertEqual(script.end(), 1, script.errors())
        self.wait_for_no_children(script)
        self.assertFalse((self.run_dir / "summary.json").exists())

    def test_a_killed_run_local_takes_its_daemons_along(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        daemons = [pid for pid in harness.children_of(script.pid) if "paceline-" in harness.command_of(pid)]
        self.assertEqual(len(daemons), 3)
        script.send(signal.SIGKILL)
        for pid in daemons:
            self.assertTrue(harness.wait_for_exit(pid), f"still there: {harness.command_of(pid)}")
        self.assertEqual(script.end(), -9)
        self.wait_for_no_children(script)

    def test_run_local_tells_the_truth_about_a_lost_node(self):
        script = self.run_local("run.max_seconds=5s")
        script.wait_for_line(harness.PROGRESS.pattern)
        node = next(pid for pid in harness.children_of(script.pid) if "--node 1" in harness.command_of(pid))
        os.kill(node, signal.SIGKILL)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertIn(f"run_local: node 1 ended with status 137 although the run succeeded; see the logs in "
                      f"{self.run_dir}", script.errors())

    def test_run_local_with_a_port_in_use_ends_soon(self):
        with socket.socket() as used:
            used.bind(("127.0.0.1", 0))
            used.listen()
            endpoint = f"tcp://127.0.0.1:{used.getsockname()[1]}"
            script = self.run_local("--tcp", f"cluster.endpoints=[{endpoint}]", "cluster.start_timeout=1h")
            self.assertEqual(script.end(), 1, script.errors())
            self.assertIn(f"paceline-server: cannot bind {endpoint}: Address already in use", script.errors())

    def test_a_killed_run_locals_sockets_are_removed_by_the_next_one(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        endpoint = re.search(r"ipc://(/tmp/paceline-run\.\w+)/0", (self.run_dir / "config.yaml").read_text())
        sockets = Path(endpoint[1])
        self.assertTrue(sockets.is_dir())
        os.utime(sockets, (0, 0))
        other = self.script("run_local.sh", self.config, "--out", self.folder / "other", "--bin", harness.BIN,
                            "train.total_iterations=4")
        self.assertEqual(other.end(), 0, other.errors())
        self.assertTrue(sockets.is_dir(), "those of a live run")
        script.send(signal.SIGKILL)
        self.assertEqual(script.end(), -9)
        self.wait_for_no_children(script)
        self.assertTrue(sockets.is_dir())
        script = self.run_local("--force", "train.total_iterations=4")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertFalse(sockets.exists())

    def test_a_signal_during_quickstarts_installation_leaves_nothing_behind(self):
        scripts = self.folder / "checkout/scripts"
        scripts.mkdir(parents=True)
        (scripts / "lib").symlink_to(harness.SOURCE / "scripts/lib")
        shutil.copy(harness.SOURCE / "scripts/quickstart.sh", scripts)
        # As apt does it: the work is a child's child, which hears of nothing by itself.
        (scripts / "install_deps.sh").write_text("#!/bin/sh\nsh -c 'echo installing >&2; sleep 1000; true'\ntrue\n",
                                                 encoding="utf-8")
        (scripts / "install_deps.sh").chmod(0o755)
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                script = self.start("bash", scripts / "quickstart.sh")
                script.wait_for_line("installing")
                script.send(number)
                self.assertEqual((script.end(), script.errors()),
                                 (1, ["installing", "quickstart: stopping (again to end at once)"]))
                self.wait_for_no_children(script)

    def test_run_ssh_runs_the_daemons_of_a_host_list(self):
        ssh = self.folder / "ssh"
        ssh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n', encoding="utf-8")  # every host is this machine
        ssh.chmod(0o755)
        hosts = self.folder / "hosts"
        hosts.write_text("# the server\nserver alpha\n\nnode alpha\nnode beta\n", encoding="utf-8")
        checkout = self.folder / "checkout"
        (checkout / "build/release").mkdir(parents=True)
        (checkout / "build/release/bin").symlink_to(harness.BIN)
        (checkout / "scripts").symlink_to(harness.SOURCE / "scripts")
        script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh,
                            "train.total_iterations=100")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(self.summary()["status"], "ok")
        script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh, "--force")
        script.wait_for_line(harness.PROGRESS.pattern)
        script.send(signal.SIGINT)
        self.assertEqual(script.end(), 1, script.errors())
        self.assertEqual(self.summary()["status"], "stopped")
        self.wait_for_no_children(script)

    def test_compare_policies_prints_one_table(self):
        configs = []
        for policy in ("bsp", "ssp", "asp"):
            configs.append(self.folder / f"{policy}.yaml")
            shutil.copy(self.config, configs[-1])
            with open(configs[-1], "a", encoding="utf-8") as file:
                file.write(f"sync: {{policy: {policy}}}\n")
        script = self.script("compare_policies.sh", *configs, "--out", self.folder / "runs", "--bin", harness.BIN,
                             "train.total_iterations=100", "cluster.nodes=2")
        self.assertEqual(script.end(), 0, script.errors())
        table = script.output()[script.output().index("Seconds for each worker"):].splitlines()
        self.assertEqual(len(table), 2 + len(configs), table)
        for line, config in zip(table[2:], configs):
            self.assertRegex(line, rf"^{self.folder}/runs/{config.stem} +ok +{config.stem} ")
        # The same again is kept, another configuration is not.
        for seed, expected in ((3, "keeping the finished run"), (4, "is replaced: its configuration was another: had "
                                                                    "seed: 3; now seed: 4")):
            again = self.script("compare_policies.sh", configs[0], "--out", self.folder / "runs", "--bin", harness.BIN,
                                "train.total_iterations=100", "cluster.nodes=2", f"run.seed={seed}")
            self.assertEqual(again.end(), 0, again.errors())
            self.assertIn(expected, again.output())

    def test_wrong_usage(self):
        hosts = self.folder / "hosts"
        hosts.write_text("server\n", encoding="utf-8")
        for name, *arguments, complaint in (
                ("run_local.sh", "run_local: no configuration given (see --help)"),
                ("run_local.sh", self.config, "--nonsense", "run_local: unknown option '--nonsense' (see --help)"),
                ("run_local.sh", self.config, "--out", "run_local: --out needs a folder"),
                ("run_local.sh", self.config, self.config,
                 f"run_local: two configurations: '{self.config}' and '{self.config}'"),
                ("compare_policies.sh", "compare_policies: no configuration given (see --help)"),
                ("compare_policies.sh", "--nonsense", "compare_policies: unknown option '--nonsense' (see --help)"),
                ("run_ssh.sh", self.config, "run_ssh: a configuration and a host list are needed (see --help)"),
                ("run_ssh.sh", self.config, "absent", "run_ssh: cannot read the host list absent"),
                ("build.sh", "fast", "build.sh: unknown preset 'fast', expected release, debug, asan or tsan")):
            with self.subTest(script=name, arguments=arguments):
                script = self.script(name, *arguments)
                self.assertEqual((script.end(), script.errors()), (2, [complaint]))
        script = self.run_local("train.optimizer.lr=x")
        self.assertEqual(script.end(), 2)
        self.assertRegex(script.errors()[0], "train.optimizer.lr: wrong type, got \"x\"")
        self.run_dir.mkdir()
        (self.run_dir / "summary.json").touch()
        script = self.run_local()
        self.assertEqual((script.end(), script.errors()), (2, [
            f"run_local: {self.run_dir} holds an earlier run; give another --out, or --force to replace it"]))


if __name__ == "__main__":
    harness.main()
