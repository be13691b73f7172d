"""scripts/ that install, build, test and measure. See harness.py."""

import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path

import harness
from harness import ScriptTest


class Scripts(ScriptTest):
    """A signal leaves nothing running; wrong usage is said in one line."""

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
                                       ("scripts/test.sh", "check", "tools/ctest"),
                                       ("scripts/build.sh", "tools/cmake"),
                                       ("scripts/bench.sh", "tools/cmake"),
                                       ("scripts/compare_policies.sh", self.config, "tools/cmake")):
            # As apt, ninja and ctest do it: the work is a child's child, which hears of nothing by itself. It is
            # stopped, as a test stops a daemon, and would not hear of a SIGTERM either.
            work = "sh -c 'echo working >&2; kill -STOP $$; sleep 1000; true'\ntrue\n"
            self.stand_in(checkout / step, '[ "$1" = --preset ] && [ $# -eq 2 ] || ' + work)  # not when it configures
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                with self.subTest(script=name, step=step, signal=number):
                    script = self.start_in(checkout, name, *arguments)
                    script.wait_for_line("working")
                    if number == signal.SIGTERM:
                        script.send(signal.SIGUSR1)  # there is nothing to save
                    script.send(number)
                    self.assertEqual(script.end(), 1, script.errors())
                    self.wait_for_no_children(script)
            self.stand_in(checkout / step, "true\n")

    def test_ctrl_c_ends_an_installation_under_sudo(self):
        checkout = self.checkout()
        (checkout / "scripts/install_deps.sh").unlink()
        (checkout / "scripts/install_deps.sh").symlink_to(harness.SOURCE / "scripts/install_deps.sh")
        # As apt does: a SIGINT that it does not ignore ends it at once. (A shell that has printed and not yet started
        # what it waits for would lose it.)
        work = ("import signal, sys\n"
                "if signal.getsignal(signal.SIGINT) != signal.SIG_IGN: signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
                "print('working', file=sys.stderr, flush=True)\n"
                "while True: signal.pause()\n")
        # What sudo runs belongs to root: a user's SIGTERM does not reach it, the terminal's SIGINT does.
        for tool, text in (("id", "echo 1000\n"), ("dpkg-query", "exit 1\n"), ("sudo", "trap '' TERM\n\"$@\"\n"),
                           ("apt-get", f'exec {shlex.quote(sys.executable)} -c {shlex.quote(work)}\n')):
            self.stand_in(checkout / "tools" / tool, text)
        # A session, so that all of it and nothing else is what a terminal would send Ctrl-C to.
        script = self.start("setsid", "env", f"PATH={checkout}/tools:{os.environ['PATH']}", "bash",
                            checkout / "scripts/quickstart.sh")
        script.wait_for_line("working")
        os.killpg(script.pid, signal.SIGINT)
        self.assertEqual(script.end(), 1, script.errors())
        self.wait_for_no_children(script)

    def test_the_suite_hears_sigint_although_test_sh_runs_it_in_the_background(self):
        checkout = self.checkout()
        self.stand_in(checkout / "tools/ctest", "grep SigIgn /proc/self/status >&2\n")
        script = self.start_in(checkout, "scripts/test.sh", "check")
        ignored = int(script.wait_for_line("SigIgn").split()[1], 16)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(ignored & 1 << (signal.SIGINT - 1), 0)

    def test_a_build_makes_the_programs_where_no_more_is_said(self):
        checkout = self.checkout()
        self.stand_in(checkout / "tools/cmake", 'echo "$*" >&2\n')
        for printed, made in (((), "release --target programs"), (("debug",), "debug --target programs"), (("check", "all"), "check --target all")):
            script = self.start_in(checkout, "scripts/build.sh", *printed)
            self.assertEqual((script.end(), script.errors()), (0, [f"--build build/{made}"]))

    def test_what_took_longest_is_named_of_what_ninja_and_ctest_write(self):
        (self.folder / "build.ninja").write_text("rule make\n  command = touch $out\nbuild made: make\n", encoding="utf-8")
        (self.folder / "CTestTestfile.cmake").write_text("".join(f"add_test(of_{i} true)\n" for i in range(11)), encoding="utf-8")
        script = self.start("env", "-C", self.folder, "bash", "-c", f""". {harness.SOURCE}/scripts/lib/slowest.sh
            ninja >said && ctest --output-junit tests.xml >said
            slowest_builds .ninja_log 0 && slowest_tests tests.xml && slowest_builds .ninja_log 4102444800""")  # the year 2100
        self.assertEqual(script.end(), 0, script.errors())
        built, *tested = script.output().splitlines()
        self.assertRegex(built, r"^ +\d+\.\d  made$")
        self.assertEqual(len(tested), 10, tested)
        for line in tested:
            self.assertRegex(line, r"^ +\d+\.\d  of_\d+$")

    def test_quickstarts_out_stands_where_the_user_does(self):
        checkout = self.checkout()
        (checkout / "build/release").mkdir(parents=True)
        (checkout / "build/release/bin").symlink_to(harness.BIN)
        self.start("mkdir", self.folder / "user").end()
        def quickstart(*arguments):
            return self.start("env", "-C", self.folder / "user", f"PATH={checkout}/tools:{os.environ['PATH']}", "bash",
                              checkout / "scripts/quickstart.sh", f"data.path={self.data}", "train.total_iterations=16",
                              "train.batch_size=1", "train.eval_samples=1",
                              "train.optimizer.schedule.warmup_versions=0", *arguments)

        script = quickstart("--out", "mine", "emulate.base_step=null")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertTrue((self.folder / "user/mine/summary.json").exists())
        script = quickstart("--out", "mine", "emulate.base_step=null")
        self.assertEqual((script.end(), script.errors()), (2, [
            f"quickstart: {self.folder}/user/mine holds an earlier run; give another --out"]))
        # A machine too slow for the emulation has trained all the same; the newcomer's own folder is used again.
        for _ in range(2):
            script = quickstart("emulate.base_step=1us")
            self.assertEqual(script.end(), 0, script.errors())
            self.assertRegex(script.errors()[-1], "^quickstart: the network is trained and its accuracy counts. This "
                             "machine is too slow for the emulated speeds, so the times say nothing about policies; ")
        self.assertTrue((checkout / "runs/quickstart/model.bin").exists())

    def test_quickstart_of_an_installed_package_trains_where_the_user_stands(self):
        checkout, share = self.checkout(), self.folder / "usr/share/paceline"
        share.parent.mkdir(parents=True)
        checkout.rename(share)
        (share / "scripts/build.sh").unlink()
        (self.folder / "usr/bin").symlink_to(harness.BIN)
        self.start("mkdir", self.folder / "user").end()
        script = self.start("env", "-C", self.folder / "user", "bash", share / "scripts/quickstart.sh", f"data.path={self.data}",
                            "train.total_iterations=16", "train.batch_size=1", "train.eval_samples=1",
                            "train.optimizer.schedule.warmup_versions=0", "emulate.base_step=null")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertTrue((self.folder / "user/runs/quickstart/model.bin").exists())
        self.assertNotIn("installing", script.output())

    def bench_checkout(self):
        """One in which scripts/bench.sh measures what stand-ins say, each a line; `log` has the commands, in order."""
        checkout, log = self.checkout(), self.folder / "log"
        for program in ("exchange", "through_server", "small_messages", "memory"):
            self.stand_in(checkout / f"tests/bench/{program}.py",
                          f"""echo "$(basename $0) $*" >>{log}; echo '{{"benchmark": "{program}", "ratio": 1.0}}'\n""")
        for program, printed in (("decision", '"benchmark": "decision"'), ("memory_bandwidth", '"benchmark": "copying"'),
                              ("recorder_cost", '"cost": 1'), ("simulate", '"cost": 2')):
            self.stand_in(checkout / f"build/release/bin/bench_{program}",
                          f"""echo "$(basename $0) $*" >>{log}; echo '{{{said}}}'\n""")
        for program in ("apply_bandwidth", "step_decision"):
            self.stand_in(checkout / f"build/release/bin/bench_{program}", self.google(log))
        for file in ("once.py", "processes.py", "table.py"):
            (checkout / "tests/bench" / file).symlink_to(harness.SOURCE / "tests/bench" / file)
        return checkout, log

    @staticmethod
    def google(log, ends="exit 0"):
        """Writes the file that it is told to, as Google Benchmark does."""
        return f"""echo "$(basename $0)" >>{log}; for word; do case "$word" in --benchmark_out=*) out=${{word#*=}} ;; esac; done
echo '{{"benchmarks": [{{"name": "sgd", "ratio": 0.9, "threads": 1}}]}}' >"$out"; {ends}\n"""

    def test_bench_that_was_cut_goes_on_and_measures_again_what_other_programs_did(self):
        checkout, log = self.bench_checkout()
        result, broken = self.folder / "bench.json", self.folder / "broken"
        memory = checkout / "tests/bench/memory.py"
        memory.write_text(memory.read_text().replace("echo", f"[ ! -e {broken} ] || exit 3; echo", 1))

        def bench(status, *arguments):
            before = len(log.read_text().splitlines()) if log.exists() else 0
            script = self.start_in(checkout, "scripts/bench.sh", "--out", result, *arguments)
            self.assertEqual(script.end(), status, script.errors())
            return log.read_text().splitlines()[before:]

        broken.touch()
        first = bench(1, "--targets")
        self.assertIn("exchange.py --pairs 15 --mb 40 --workers 4 --limit 0.85", first)
        self.assertIn("exchange.py --pairs 15 --transport shared --mb 40 --workers 4 --limit 0.7", first)
        broken.unlink()
        self.assertEqual(bench(0, "--targets"), ["memory.py ", "bench_memory_bandwidth 64"])
        self.assertFalse((self.folder / "bench.json.jsonl").exists())
        # All, cut, and then other programs: again from the start.
        broken.touch()
        self.assertEqual(bench(1), first)
        broken.unlink()
        self.stand_in(checkout / "build/release/bin/bench_recorder_cost", f"""echo "new" >>{log}; echo '{{"cost": 3}}'\n""")
        every = bench(0)
        self.assertEqual(every[:len(first)], first)
        self.assertEqual(len(every), len(set(every)) + 1, every)  # nothing twice but what memory can do
        measured = json.loads(result.read_text())["measurements"]
        self.assertEqual([line["cost"] for line in measured if line["benchmark"] == "recorder"], [3])

    def test_gpu_check_says_by_its_status_what_its_table_says_and_that_there_is_no_gpu(self):
        checkout, carried, state = self.checkout(), self.folder / "carried", self.folder / "state"
        # A GPU is there, its test passes, a measurement is within its limit: where there is such a file.
        self.stand_in(carried / "tests/gpu_test", f"""
[ -e {state}/gpu ] || {{ echo "gpu_test: skipped: no GPU" >&2; exit 77; }}
[ "$1" = --help ] || [ -e {state}/passes ]\n""")
        self.stand_in(carried / "bin/paceline", "true\n")
        self.stand_in(checkout / "tests/bench/loss_beside_cpu.py", f"""
[ -e {state}/measures ] || exit 3
echo '{{"benchmark": "loss_beside_cpu", "model": "m", "mean_difference": 0.5, "limit": 0.02}}'; exit 1\n""")
        for file in ("once.py", "processes.py"):
            (checkout / "tests/bench" / file).symlink_to(harness.SOURCE / "tests/bench" / file)
        self.assertEqual(self.start("tar", "-C", carried, "-czf", carried / "programs.tar.gz", "bin", "tests").end(), 0)
        state.mkdir()

        def gpu_check(status, only, *rows):
            script = self.start_in(checkout, "scripts/gpu_check.sh", "--only", only, "--carried-programs", "--carried", carried,
                                   "--out", self.folder / "out")
            self.assertEqual(script.end(), status, script.errors())
            table = [line.split()[-1] for line in script.output().splitlines() if line and line[0] != "{"]
            self.assertEqual(table, ["met", *rows] if rows else [], script.output())
            return script.errors()

        self.assertIn("gpu_test: skipped: no GPU", gpu_check(77, "threads"))
        (state / "gpu").touch()
        gpu_check(1, "gradients", "NO")
        (state / "passes").touch()
        gpu_check(0, "gradients", "yes")  # instead of the earlier failure
        gpu_check(1, "loss", "yes")  # nothing could be measured
        (state / "measures").touch()
        gpu_check(1, "loss", "yes", "NO")
        self.assertIn("bench: measured already: tests/bench/loss_beside_cpu.py", " ".join(gpu_check(1, "loss", "yes", "NO")))
        gpu_check(1, "gradients", "yes", "NO")  # it still is

    def test_gpu_check_watches_test_cases_that_there_are(self):
        script = (harness.SOURCE / "scripts/gpu_check.sh").read_text(encoding="utf-8")
        patterns = set(re.findall(r"[a-z0-9_]+(?=\*[,'\"])", script))
        built = (harness.SOURCE / "tests/subjects/model.cmake").read_text(encoding="utf-8")
        sources = re.search(r"paceline_program\(gpu_test SOURCES (.*?)LIBS", built, re.DOTALL).group(1).split()
        cases = [case for file in sources for case in
                 re.findall(r'TEST_CASE\(\s*"([a-z0-9_]+)"', (harness.SOURCE / "tests" / file).read_text(encoding="utf-8"))]
        self.assertIn("a_predicted_mini_batch", patterns)
        self.assertEqual([one for one in patterns if not any(case.startswith(one) for case in cases)], [])
        self.assertEqual([case for case in cases if "cifar" in case and case.startswith(tuple(patterns))], [])

    def benchmark(self, *commands):
        """A benchmark of these processes (tests/bench/processes.py)."""
        return self.start(sys.executable, "-c", f"""
import pathlib, sys
sys.path.insert(0, {str(harness.SOURCE / "tests/bench")!r})
sys.dont_write_bytecode = True
from processes import run_all
run_all({[["sh", "-c", command] for command in commands]!r}, pathlib.Path({str(self.folder)!r}))""")

    def test_a_benchmarks_processes_end_with_the_first_that_fails_and_with_the_benchmark(self):
        script = self.benchmark("exec sleep 1000", "echo because >&2; exit 5")
        self.assertEqual((script.end(), script.errors()),
                         (3, ["sh -c echo because >&2; exit 5: exit status 5: because"]))
        self.assertEqual(harness.children(), [])
        begun = self.folder / "begun"
        os.mkfifo(begun)
        for number, status, printed in ((signal.SIGTERM, 3, ["stopped by SIGTERM"]), (signal.SIGHUP, 3, ["stopped by SIGHUP"]),
                                     (signal.SIGKILL, -9, [])):
            with self.subTest(signal=number):
                script = self.benchmark("exec sleep 1000", f"echo begun >{begun}; exec sleep 1000")
                self.assertEqual(begun.read_text(), "begun\n")
                script.send(number)
                self.assertEqual((script.end(), script.errors()), (status, printed))
                self.wait_for_no_children(script)

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
                ("simulator_vs_reality.sh", "--nonsense", "simulator_vs_reality: unknown option '--nonsense' (see --help)"),
                ("simulator_vs_reality.sh", "fast", "simulator_vs_reality: no cell 'fast' (see --help)"),
                ("simulator_vs_reality.sh", "calibration-learns-2", "simulator_vs_reality: no cell 'calibration-learns-2' (see --help)"),
                ("simulator_vs_reality.sh", "--calibrations", "0", "simulator_vs_reality: --calibrations needs 1 to 99"),
                ("simulator_vs_reality.sh", "--bin", "absent",
                 "simulator_vs_reality: absent/paceline is not there; build it with scripts/build.sh"),
                ("make_data.sh", self.config, "--bin", "make_data: --bin needs a folder"),
                ("quickstart.sh", "--nonsense", "quickstart: unknown option '--nonsense' (see --help)"),
                ("quickstart.sh", "--out", "quickstart: --out needs a folder"),
                ("bench.sh", "--out", "bench: --out needs a file"),
                ("run_ssh.sh", self.config, "run_ssh: a configuration and a host list are needed (see --help)"),
                ("run_ssh.sh", self.config, "absent", "run_ssh: cannot read the host list absent"),
                ("build.sh", "fast", "build.sh: unknown preset 'fast', expected release, debug, check, asan or tsan")):
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
