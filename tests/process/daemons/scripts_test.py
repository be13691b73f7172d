"""scripts/: what a user starts. See harness.py."""

import os
import re
import shutil
import signal
import socket
import sys
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

    def stand_in(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(0o755)

    def checkout(self):
        """The scripts in a checkout that installs and builds nothing: install_deps.sh, cmake and ctest do nothing."""
        checkout = self.folder / "checkout"
        for file in (*(harness.SOURCE / "scripts").iterdir(), harness.SOURCE / ".ci/run"):
            (checkout / file.parent.name).mkdir(parents=True, exist_ok=True)
            (checkout / file.parent.name / file.name).symlink_to(file)
        (checkout / "configs").symlink_to(harness.SOURCE / "configs")
        (checkout / "scripts/install_deps.sh").unlink()
        for stand_in in (checkout / "scripts/install_deps.sh", checkout / "tools/cmake", checkout / "tools/ctest"):
            self.stand_in(stand_in, "true\n")
        return checkout

    def start_in(self, checkout, name, *arguments):
        return self.start("env", f"PATH={checkout}/tools:{os.environ['PATH']}", "bash", checkout / name, *arguments)

    def test_a_signal_during_a_step_of_a_script_leaves_nothing_behind(self):
        checkout = self.checkout()
        for name, *arguments, step in (("scripts/quickstart.sh", "scripts/install_deps.sh"),
                                       ("scripts/test.sh", "scripts/install_deps.sh"),
                                       (".ci/run", "tools/cmake"),
                                       ("scripts/test.sh", "debug", "tools/ctest"),
                                       ("scripts/build.sh", "tools/cmake"),
                                       ("scripts/bench.sh", "tools/cmake"),
                                       ("scripts/compare_policies.sh", self.config, "tools/cmake")):
            # As apt, ninja and ctest do it: the work is a child's child, which hears of nothing by itself. It is
            # stopped, as a test stops a daemon, and would not hear of a SIGTERM either.
            work = "sh -c 'echo working >&2; kill -STOP $$; sleep 1000; true'\ntrue\n"
            self.stand_in(checkout / step, '[ "$1" = --preset ] && [ $# -eq 2 ] || ' + work)  # not when it configures
            for number in (signal.SIGTERM, signal.SIGINT):
                with self.subTest(script=name, step=step, signal=number):
                    script = self.start_in(checkout, name, *arguments)
                    script.wait_for_line("working")
                    script.send(number)
                    self.assertEqual(script.end(), 1, script.errors())
                    self.wait_for_no_children(script)
            self.stand_in(checkout / step, "true\n")

    def test_the_suite_hears_sigint_although_test_sh_runs_it_in_the_background(self):
        checkout = self.checkout()
        self.stand_in(checkout / "tools/ctest", "grep SigIgn /proc/self/status >&2\n")
        script = self.start_in(checkout, "scripts/test.sh", "debug")
        ignored = int(script.wait_for_line("SigIgn").split()[1], 16)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(ignored & 1 << (signal.SIGINT - 1), 0)

    def test_quickstarts_out_stands_where_the_user_does(self):
        checkout = self.checkout()
        (checkout / "build/release").mkdir(parents=True)
        (checkout / "build/release/bin").symlink_to(harness.BIN)
        self.start("mkdir", self.folder / "user").end()
        script = self.start("env", "-C", self.folder / "user", f"PATH={checkout}/tools:{os.environ['PATH']}", "bash",
                            checkout / "scripts/quickstart.sh", "--out", "mine", f"data.path={self.data}",
                            "train.total_iterations=16", "train.batch_size=1", "train.eval_samples=1",
                            "train.optimizer.schedule.warmup_versions=0", "emulate.base_step=null")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertTrue((self.folder / "user/mine/summary.json").exists())

    def test_bench_measures_what_a_program_misses_and_passes_on_what_fails(self):
        checkout = self.checkout()
        for program in ("tests/bench/exchange.py", "tests/bench/through_server.py",
                        "build/release/bin/bench_recorder_cost"):
            self.stand_in(checkout / program, "true\n")
        apply = checkout / "build/release/bin/bench_apply_bandwidth"
        missed = ["bench: bench_apply_bandwidth: a figure missed its target"]
        for ends, status, complaint in (("exit 0", 0, []), ("exit 1", 0, missed),
                                        ("exit 3", 1, ["bench: bench_apply_bandwidth ended with status 3"]),
                                        ("kill -SEGV $$", 1, ["bench: bench_apply_bandwidth ended with status 139"])):
            with self.subTest(ends=ends):
                self.stand_in(apply, ends + "\n")
                script = self.start_in(checkout, "scripts/bench.sh", "--out", self.folder / "bench.jsonl")
                self.assertEqual(script.end(), status, script.errors())
                self.assertEqual([line for line in script.errors() if line.startswith("bench: ")], complaint)
        apply.unlink()
        script = self.start_in(checkout, "scripts/bench.sh")
        self.assertEqual((script.end(), script.errors()), (1, [
            "bench: build/release/bin/bench_apply_bandwidth was not built: Google Benchmark is missing "
            "(scripts/install_deps.sh installs it)"]))

    def benchmark(self, *commands):
        """A benchmark of these processes (tests/bench/processes.py)."""
        return self.start(sys.executable, "-c", f"""
import pathlib, sys
sys.path.insert(0, {str(harness.SOURCE / "tests/bench")!r})
sys.dont_write_bytecode = True
from processes import run_all
run_all({[["sh", "-c", command] for command in commands]!r}, pathlib.Path({str(self.folder)!r}))""")

    def test_a_benchmarks_processes_end_with_the_first_that_fails_and_with_the_benchmark(self):
        script = self.benchmark("exec sleep 1000", "echo because >&2; exit 3")
        self.assertEqual((script.end(), script.errors()),
                         (1, ["sh -c echo because >&2; exit 3: exit status 3: because"]))
        self.assertEqual(harness.children(), [])
        begun = self.folder / "begun"
        os.mkfifo(begun)
        for number, status, said in ((signal.SIGTERM, 1, ["stopped by SIGTERM"]), (signal.SIGKILL, -9, [])):
            with self.subTest(signal=number):
                script = self.benchmark("exec sleep 1000", f"echo begun >{begun}; exec sleep 1000")
                self.assertEqual(begun.read_text(), "begun\n")
                script.send(number)
                self.assertEqual((script.end(), script.errors()), (status, said))
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

    def test_compare_policies_tells_a_wrong_configuration_from_a_failure(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "data_batch_1.bin").touch()
        for path, status in ((data, 2), (self.config / "below", 1)):  # half a data set stays as it is; not a folder
            with self.subTest(path=path):
                script = self.script("compare_policies.sh", self.config, "--out", self.folder / "runs", "--bin",
                                     harness.BIN, f"data.path={path}")
                self.assertEqual(script.end(), status, script.errors())
                self.assertEqual(script.errors()[-1], f"compare_policies: no data for {self.config}")

    def test_an_unchecked_configuration_is_no_reason_to_keep_a_run(self):
        self.run_dir.mkdir()
        (self.run_dir / "config.yaml").touch()
        (self.run_dir / "summary.json").write_text('{\n  "status": "ok"\n}\n', encoding="utf-8")
        script = self.start("bash", "-c", '. "$0/scripts/lib/runs.sh"; can_keep "$@" || echo "$why_not"',
                            harness.SOURCE, "absent/paceline", self.run_dir, self.config)
        self.assertEqual((script.end(), script.output()), (0, "its configuration is refused now"))

    def test_run_local_does_not_print_an_earlier_run_as_this_one(self):
        self.assertEqual(self.run_local("train.total_iterations=4").end(), 0)
        self.assertTrue((self.run_dir / "model.bin").exists())
        programs = self.folder / "bin"
        self.stand_in(programs / "paceline-server", "exit 1\n")  # before it has looked at the run directory
        for name in ("paceline", "paceline-worker"):
            (programs / name).symlink_to(harness.BIN / name)
        script = self.script("run_local.sh", self.config, "--out", self.run_dir, "--force", "--bin", programs)
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
                ("compare_policies.sh", self.config, "other/run.yaml",
                 "compare_policies: two configurations are named run; a run directory is named after its "
                 "configuration's file"),
                ("compare_policies.sh", self.config, "--bin", "absent",
                 "compare_policies: absent/paceline is not there"),
                ("learning_experiment.sh", self.data, "--bin", "absent",
                 "learning_experiment: absent/paceline is not there; build it with scripts/build.sh"),
                ("make_data.sh", self.config, "--bin", "make_data: --bin needs a folder"),
                ("quickstart.sh", "--nonsense", "quickstart: unknown argument '--nonsense' (see --help)"),
                ("quickstart.sh", "--out", "quickstart: --out needs a folder"),
                ("bench.sh", "--out", "bench: --out needs a file"),
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
