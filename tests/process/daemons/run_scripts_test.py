"""scripts/ that start a run: run_local and run_ssh. See harness.py."""

import json
import os
import re
import shutil
import signal
import socket
from pathlib import Path

import harness
from harness import ScriptTest


class RunScripts(ScriptTest):
    """Whatever ends a script, its daemons end too, and its exit status tells the truth."""

    def test_run_local_trains_and_prints_the_table(self):
        self.configure(shards=2)
        script = self.run_local("train.total_iterations=100")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(script.errors(), [])
        self.assertIn("all nodes (4 workers)", script.output())
        self.assertIn(f"{self.run_dir}: ok", script.output())
        self.assertEqual(self.summary()["iterations"], 100)

    def test_run_local_stops_in_order_on_one_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                script = self.run_local("--force")
                script.wait_for_line(harness.PROGRESS.pattern)
                script.send(number)
                self.assertEqual(script.end(), 1, script.errors())
                self.assertIn("run_local: stopping (again to end at once)", script.errors())
                self.assertEqual(self.summary()["status"], "stopped")
                self.assertTrue((self.run_dir / "model.bin").exists())
                self.assertEqual(harness.children(), [])

    def test_run_local_saves_a_checkpoint_and_goes_on(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        for count, number in enumerate((signal.SIGUSR1, signal.SIGUSR2)):
            printed = script.lines_printed()
            script.send(number)
            script.line_or_end("paceline-server: asked for a checkpoint: the next version", after=printed)
            self.wait_for_checkpoints(count + 1)
        script.send(signal.SIGTERM)
        self.assertEqual(script.end(), 1, script.errors())
        self.assertEqual((self.summary()["status"], self.summary()["checkpoints"]), ("stopped", 3))
        resumed = self.script("run_local.sh", "--resume", self.run_dir, "--bin", harness.BIN)
        resumed.wait_for_line(harness.PROGRESS.pattern)
        resumed.send(signal.SIGHUP)
        self.assertEqual(resumed.end(), 1, resumed.errors())

    def wait_for_checkpoints(self, count):
        with harness.FolderWatch(self.run_dir) as watch:
            while (self.run_dir / "server.log").read_text(encoding="utf-8").count("is written: ") < count:
                watch.wait(f"{count} checkpoints")

    def test_a_terminal_that_closes_stops_run_local_once(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        for pid in harness.daemons_of(script.pid, "paceline-worker"):
            os.kill(pid, signal.SIGSTOP)  # the orderly end has to wait for them
        for _ in range(2):
            script.send(signal.SIGHUP)
            script.wait_for_line("stopping")
        for pid in harness.daemons_of(script.pid, "paceline-worker"):
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(script.end(), 1, script.errors())
        self.assertEqual(self.summary()["status"], "stopped")

    def test_run_local_ends_at_once_on_the_second_signal(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        for pid in harness.daemons_of(script.pid, "paceline-worker"):
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
        daemons = harness.daemons_of(script.pid)
        self.assertEqual(len(daemons), 3)
        nodes = harness.daemons_of(script.pid, "paceline-worker")
        for pid in nodes:
            os.kill(pid, signal.SIGSTOP)  # else both may be gone before the server has its signal
        script.send(signal.SIGKILL)
        self.wait_for_log("server.log", "stopping: ")
        for pid in nodes:
            os.kill(pid, signal.SIGCONT)
        for pid in daemons:
            self.assertTrue(harness.wait_for_exit(pid), f"still there: {harness.command_of(pid)}")
        self.assertEqual(script.end(), -9)
        self.wait_for_no_children(script)
        self.assertEqual(self.summary()["status"], "stopped")  # in order, for all that
        self.assertTrue((self.run_dir / "model.bin").exists())

    def test_run_local_tells_the_truth_about_a_lost_node(self):
        script = self.run_local("run.max_seconds=5s")
        script.wait_for_line(harness.PROGRESS.pattern)
        node = self.node_1_of(script)
        os.kill(node, signal.SIGKILL)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertIn(f"run_local: node 1 ended with status 137 although the run succeeded; see the logs in "
                      f"{self.run_dir}", script.errors())

    def test_data_that_are_not_there_are_said_once_and_leave_nothing(self):
        script = self.run_local(f"data.path={self.folder}/none")
        self.assertEqual(script.end(), 2)
        self.assertEqual(len(script.errors()), 1, script.errors())
        self.assertRegex(script.errors()[0], f"^paceline check-config: data folder '{self.folder}/none' does not exist; ")
        self.assertEqual(script.output(), "")
        self.assertFalse(self.run_dir.exists())

    def test_a_node_that_refuses_before_the_training_ends_the_run_which_leaves_nothing(self):
        programs = self.folder / "bin"
        self.stand_in(programs / "paceline-worker", "echo 'paceline-worker: no such thing' >&2\nexit 2\n")
        for name in ("paceline", "paceline-server"):
            (programs / name).symlink_to(harness.BIN / name)
        script = self.script("run_local.sh", self.config, "--out", self.run_dir, "--bin", programs, "cluster.nodes=1")
        self.assertEqual((script.end(), script.output()), (2, ""))
        self.assertEqual(script.errors(), ["paceline-worker: no such thing",
                                           "run_local: node 0 ended with status 2 before the training began"])
        self.assertFalse(self.run_dir.exists())
        # Not its own: the configuration of an earlier run, even where the run itself is to be replaced.
        self.assertEqual(self.run_local("train.total_iterations=4").end(), 0)
        script = self.script("run_local.sh", self.run_dir / "config.yaml", "--out", self.run_dir, "--bin", programs,
                             "--force", "--force", "cluster.nodes=1")
        self.assertEqual(script.end(), 2, script.errors())
        self.assertEqual([file.name for file in self.run_dir.iterdir()], ["config.yaml"])

    def test_run_local_says_what_became_of_a_run_that_is_invalid(self):
        script = self.run_local("train.total_iterations=40", "emulate.base_step=1us")
        self.assertEqual(script.end(), 1)
        self.assertRegex(script.errors()[-1], r"^run_local: the run is invalid: \d+ of 40 emulated steps took longer .*; "
                         f"see {self.run_dir}/server.log$")
        self.assertEqual(list(self.run_dir.glob("compute-slot-*")), [])

    def test_force_leaves_nothing_of_the_earlier_run(self):
        self.configure(shards=2)
        self.assertEqual(self.run_local("train.total_iterations=4").end(), 0)
        (self.run_dir / "compute-slot-0").touch()  # of a run that was killed
        (self.run_dir / "notes").touch()
        self.configure(shards=1)
        script = self.run_local("train.total_iterations=4", "cluster.nodes=1", "--force")  # it has ended well
        self.assertEqual((script.end(), script.errors()), (2, [
            f"run_local: {self.run_dir} holds a run that ended well; give another --out, or --force twice to replace it"]))
        self.assertTrue((self.run_dir / "model.bin").exists())
        script = self.run_local("train.total_iterations=4", "cluster.nodes=1", "--force", "--force")
        self.assertEqual(script.end(), 0, script.errors())
        expected = {"config.yaml", "curve.csv", "model.bin", "notes", "phases.csv", "phases_histogram.csv",
                    "progress.csv", "server.log", "staleness.csv", "summary.json", "worker-0.log"}
        self.assertEqual({file.name for file in self.run_dir.iterdir()}, expected)
        self.configure(shards=2)  # the same by the daemons alone
        self.assertEqual(self.run_local("train.total_iterations=4", "--force", "--force").end(), 0)
        self.configure(shards=1)
        arguments = ("train.total_iterations=4", "cluster.nodes=1", "--force", "--force")
        server, node = self.server(0, *arguments), self.node(0, *arguments)
        self.assertEqual((server.end(), node.end()), (0, 0))
        self.assertEqual({file.name for file in self.run_dir.iterdir()}, expected)

    def test_run_local_with_a_port_in_use_ends_soon(self):
        with socket.socket() as used:
            used.bind(("127.0.0.1", 0))
            used.listen()
            endpoint = f"tcp://127.0.0.1:{used.getsockname()[1]}"
            script = self.run_local("--tcp", f"cluster.endpoints=[{endpoint}]", "cluster.start_timeout=1h")
            self.assertEqual(script.end(), 1, script.errors())
            self.assertIn(f"paceline-server: cluster.endpoints: cannot bind {endpoint}: Address already in use", script.errors())

    def test_run_local_over_ipv6_with_keys(self):
        self.assertEqual(self.paceline("keygen", "--out", self.folder / "keys", "--nodes", 2).returncode, 0)
        with socket.socket(socket.AF_INET6) as free:
            free.bind(("::1", 0))
            endpoint = f"tcp://[::1]:{free.getsockname()[1]}"
        script = self.run_local("--tcp", f'cluster.endpoints=["{endpoint}"]', f"security.keys={self.folder}/keys",
                                "cluster.shared_memory=off", 'run.http="[::1]:0"', "train.total_iterations=100")
        self.assertEqual((script.end(), script.errors()), (0, []))
        self.assertIn(f"listens on {endpoint}", (self.run_dir / "server.log").read_text())
        self.assertEqual(self.summary()["iterations"], 100)

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

    def test_run_ssh_runs_the_daemons_of_a_host_list(self):
        ssh = self.folder / "ssh"
        remote = self.folder / "remote"  # the folder for temporary files of every host, which is this machine
        remote.mkdir()
        there = f'export TMPDIR={remote}\necho Welcome to $1\nshift\nexec sh -c "$*"\n'
        ssh.write_text("#!/bin/sh\n" + there, encoding="utf-8")
        ssh.chmod(0o755)
        hosts = self.folder / "hosts"
        # As an editor of another system leaves it.
        hosts.write_text("\ufeff# the server\r\nserver alpha  # in the cellar\r\n\r\nnode alpha\r\nnode beta", encoding="utf-8", newline="")
        checkout = self.folder / "checkout"
        (checkout / "build/release").mkdir(parents=True)
        (checkout / "build/release/bin").symlink_to(harness.BIN)
        (checkout / "scripts").symlink_to(harness.SOURCE / "scripts")
        script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh,
                            "train.total_iterations=100")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(self.summary()["status"], "ok")
        self.assertIn("all nodes (4 workers)", script.output())
        # Nobody said anything of security: there were keys for this run alone.
        self.assertRegex((self.run_dir / "config.yaml").read_text(), rf'keys: "{remote}/paceline\.\w{{6}}/keys"')
        self.assertEqual(list(remote.iterdir()), [])
        self.assertEqual(self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh, "--force",
                                    "--force", "train.total_iterations=100", "security.allow_insecure=true").end(), 0)
        self.assertIn("  keys: null\n", (self.run_dir / "config.yaml").read_text())
        script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh, "--force")
        self.assertEqual((script.end(), script.errors()), (2, [
            f"run_ssh: {self.run_dir} on alpha holds a run that ended well; give another run.out, or --force twice to replace it"]))
        def again(*overrides):
            return self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh, "--resume-or-start", *overrides)
        shutil.rmtree(self.run_dir)
        script = again("checkpoint.every_clocks=1000")
        script.wait_for_line(harness.PROGRESS.pattern)
        script.send(signal.SIGTERM)
        self.assertEqual(script.end(), 1, script.errors())
        ends = f"train.total_iterations={self.summary()['iterations'] + 400}"
        script = again(ends)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual((self.summary()["status"], self.summary()["generation"]), ("ok", 2))
        script = again(ends)
        self.assertEqual(script.end(), 4, script.errors())
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh, "--force", "--force")
                script.wait_for_line(harness.PROGRESS.pattern)
                script.send(number)
                self.assertEqual(script.end(), 1, script.errors())
                self.assertEqual(self.summary()["status"], "stopped")
                self.wait_for_no_children(script)
        # A host that the configuration cannot be copied to: the others do not keep it either.
        ssh.write_text('#!/bin/sh\n[ "$1" = alpha ] || exit 255\n' + there, encoding="utf-8")
        script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh, "--force")
        self.assertEqual((script.end(), script.errors()), (1, ["run_ssh: cannot copy the configuration to beta"]))
        self.assertEqual(list(remote.iterdir()), [])

    def test_run_ssh_warns_of_a_server_that_other_hosts_do_not_reach(self):
        ssh = self.folder / "ssh"  # to hosts that can be asked for names, and no more
        ssh.write_text('#!/bin/sh\nshift\ncase "$1" in getent*) exec sh -c "$*";; esac\nexit 255\n', encoding="utf-8")
        ssh.chmod(0o755)
        hosts = self.folder / "hosts"
        hosts.write_text("server alpha\nnode alpha\nnode beta\n", encoding="utf-8")
        checkout = self.folder / "checkout"
        (checkout / "build/release").mkdir(parents=True)
        (checkout / "build/release/bin").symlink_to(harness.BIN)
        (checkout / "scripts").symlink_to(harness.SOURCE / "scripts")
        for host, address in (("localhost", "127.0.0.1"), ("[::1]", "::1")):
            script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh,
                                f'cluster.endpoints=["tcp://{host}:5555"]')
            self.assertEqual((script.end(), script.errors()), (1, [
                f"run_ssh: tcp://{host}:5555 leads to {address} on alpha, where no other host comes; give what all reach",
                "run_ssh: cannot copy the configuration to alpha"]))

    def test_run_ssh_makes_one_trace_of_all_hosts(self):
        ssh = self.folder / "ssh"
        ssh.write_text(f'#!/bin/sh\necho Welcome to $1\ncd {self.folder}/$1 || exit 255\nshift\nexec sh -c "$*"\n',
                       encoding="utf-8")
        ssh.chmod(0o755)
        hosts = self.folder / "hosts"
        hosts.write_text("server alpha\nnode alpha\nnode beta\n", encoding="utf-8")
        for host in ("alpha", "beta", "checkout"):  # each with folders of its own
            (self.folder / host / "build/release").mkdir(parents=True)
            (self.folder / host / "build/release/bin").symlink_to(harness.BIN)
        (self.folder / "checkout/scripts").symlink_to(harness.SOURCE / "scripts")
        arguments = ("bash", self.folder / "checkout/scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh, "--dir", ".",
                     "train.total_iterations=40", "run.trace=true", "run.out=the run")
        script = self.start(*arguments)
        self.assertEqual((script.end(), script.errors()), (0, []))
        self.assertTrue((self.folder / "beta/the run/trace-node-1.json").exists())
        trace = json.loads((self.folder / "alpha/the run/trace.json").read_text(encoding="utf-8"))
        names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        self.assertTrue(any("node 1" in name for name in names), names)
        # What another host has of an earlier run, or under a name that is not its own, is not taken.
        (self.folder / "beta/the run/trace-node-1.json").unlink()
        for name in ("trace-authority.json", "trace-shard-0.json", "trace-node-0.json"):
            (self.folder / "beta/the run" / name).write_text("junk", encoding="utf-8")
        mode = (self.folder / "alpha/the run").stat().st_mode
        script = self.start(*arguments, "--force", "--force", "run.trace_events=2000")
        self.assertEqual((script.end(), script.errors()), (0, []))
        trace = json.loads((self.folder / "alpha/the run/trace.json").read_text(encoding="utf-8"))
        self.assertTrue(any("node 1" in event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"))
        self.assertEqual((self.folder / "alpha/the run").stat().st_mode, mode)
        # What is older than the run is of an earlier one.
        whole = ssh.read_text(encoding="utf-8")
        ssh.write_text(whole.replace("shift\n", 'case "$1 $2" in beta*base64*) touch -d 2000-01-01 the*run/trace-node-1.json;; esac\nshift\n'),
                       encoding="utf-8")
        script = self.start(*arguments, "--force", "--force")
        self.assertEqual((script.end(), script.errors()), (0, ["run_ssh: no part of the trace from beta"]))
        trace = json.loads((self.folder / "alpha/the run/trace.json").read_text(encoding="utf-8"))
        self.assertFalse(any("node 1" in event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"))
        # Refused, since there is a run: what that one has come to is not told again.
        script = self.start(*arguments)
        self.assertEqual(script.end(), 2)
        self.assertNotIn("all nodes", script.output())
        # A host that has nothing to give is named; the run is none the worse.
        ssh.write_text(whole.replace("shift\n", 'case "$1 $2" in beta*base64*) exit 1;; esac\nshift\n'),
                       encoding="utf-8")
        script = self.start(*arguments, "--force", "--force")
        self.assertEqual((script.end(), script.errors()), (0, ["run_ssh: no part of the trace from beta"]))

    def test_an_unchecked_configuration_is_no_reason_to_keep_a_run(self):
        self.run_dir.mkdir()
        (self.run_dir / "config.yaml").touch()
        (self.run_dir / "summary.json").write_text('{\n  "status": "ok"\n}\n', encoding="utf-8")
        script = self.start("bash", "-c", '. "$0/scripts/lib/runs.sh"; can_keep "$@" || echo "$why_not"',
                            harness.SOURCE, "absent/paceline", self.run_dir, self.config)
        self.assertEqual((script.end(), script.output()), (0, "its configuration is refused now"))

    def test_a_run_finds_its_data_from_anywhere_and_is_kept(self):
        (self.folder / "near").symlink_to(self.data)
        overrides = ("data.path=near", "train.total_iterations=4")
        script = self.start("env", "-C", self.folder, "bash", harness.SOURCE / "scripts/run_local.sh", self.config,
                            "--out", "run", "--bin", harness.BIN, *overrides)
        self.assertEqual(script.end(), 0, script.errors())
        evaluated = self.start("env", "-C", "/", harness.BIN / "paceline", "evaluate", self.run_dir)
        self.assertEqual(evaluated.end(), 0, evaluated.errors())
        for data, reason in (("near", ""), ("far", "its configuration was another: had path: .*near; now path: .*far")):
            script = self.start("env", "-C", self.folder, "bash", "-c",
                                '. "$0/scripts/lib/runs.sh"; can_keep "$@" || echo "$why_not"', harness.SOURCE,
                                harness.BIN / "paceline", "run", self.config, f"data.path={data}", overrides[1])
            self.assertEqual(script.end(), 0, script.errors())
            self.assertRegex(script.output(), f"^{reason}$")

    def test_the_guides_own_run_runs_as_it_stands(self):
        blocks = [[line[4:] for line in block.splitlines()] for block in
                  (harness.SOURCE / "docs/GUIDE.md").read_text(encoding="utf-8").split("\n\n") if block.startswith("    ")]
        mine = next(block for block in blocks if block[0].startswith("run: "))
        hosts = next(block for block in blocks if block[0].startswith("server "))
        self.config.write_text("\n".join(mine) + "\n", encoding="utf-8")
        small = (f"data.path={self.data}", "train.total_iterations=8")
        script = self.run_local(*small)
        self.assertEqual((script.end(), script.errors()), (0, []))
        self.assertEqual(self.summary()["iterations"], 8)
        nodes = self.paceline("check-config", self.config, "--get", "cluster.nodes").stdout.strip()
        self.assertEqual([line.split()[0] for line in hosts], ["server"] + ["node"] * int(nodes))

    def test_run_local_does_not_print_an_earlier_run_as_this_one(self):
        self.assertEqual(self.run_local("train.total_iterations=4").end(), 0)
        self.assertTrue((self.run_dir / "model.bin").exists())
        programs = self.folder / "bin"
        self.stand_in(programs / "paceline-server", "exit 1\n")  # before it has looked at the run directory
        for name in ("paceline", "paceline-worker"):
            (programs / name).symlink_to(harness.BIN / name)
        script = self.script("run_local.sh", self.config, "--out", self.run_dir, "--force", "--force", "--bin", programs)
        self.assertEqual(script.end(), 1, script.errors())
        self.assertEqual(script.output(), "")
        for name in ("summary.json", "curve.csv", "phases.csv", "model.bin"):
            self.assertFalse((self.run_dir / name).exists(), name)

    def test_run_local_takes_out_for_a_path_whatever_it_means_in_yaml(self):
        for name in ("null", "x #2", "a: b", '"quoted" and \\', "[x]"):
            with self.subTest(name=name):
                script = self.start("env", "-C", self.folder, "bash", harness.SOURCE / "scripts/run_local.sh",
                                    self.config, "--out", name, "--bin", harness.BIN, "train.total_iterations=4")
                self.assertEqual(script.end(), 0, script.errors())
                self.assertTrue((self.folder / name / "model.bin").exists())


if __name__ == "__main__":
    harness.main()
