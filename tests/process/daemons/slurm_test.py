"""scripts/run_slurm.sh, without a Slurm and in one of four hosts on this machine. See harness.py and slurm.py."""

import os
import re
import signal
import socket
import subprocess
import unittest.mock

import harness
import slurm
from harness import ScriptTest


class SlurmScript(ScriptTest):
    """What it reads of an allocation, and what it says of none or too small a one: without a Slurm."""

    def read(self, what, **environment):
        """What lib/slurm.sh makes of an allocation."""
        script = f'. "{harness.SOURCE}/scripts/lib/slurm.sh" && {what}'
        made = subprocess.run(["bash", "-uc", script], env=dict(os.environ, **environment), capture_output=True, text=True, check=False)
        self.assertEqual(made.stderr, "")
        return made.stdout.split()

    def test_lists_of_hosts_are_expanded_as_slurm_does(self):
        for given, expected in (
                ("alpha", "alpha"), ("alpha,beta,alpha", "alpha beta alpha"),
                ("tux[0-2,12,20-21]", "tux0 tux1 tux2 tux12 tux20 tux21"),
                ("n[008-010],big-1", "n008 n009 n010 big-1"),
                ("a[0-1].b[2-3],c", "a0.b2 a0.b3 a1.b2 a1.b3 c")):
            with self.subTest(given=given):
                self.assertEqual(self.read(f"expand_hosts '{given}'"), expected.split())
        self.assertEqual(self.read("expand_counts '2(x3),1'"), ["2", "2", "2", "1"])

    def test_daemons_have_a_task_each_or_share(self):
        places = ('read_allocation; place_daemons {} || exit; for p in "${{shard_place[@]}}" / "${{node_place[@]}}"; do '
                  '[ $p = / ] && echo / || echo "${{place_host[$p]}}:${{place_cpus[$p]}}${{place_group[$p]:+:${{place_group[$p]}}}}"; done')
        three = {"SLURM_JOB_NODELIST": "a[1-2],b", "SLURM_TASKS_PER_NODE": "2(x2),1", "SLURM_JOB_CPUS_PER_NODE": "8(x2),3"}
        for asked, expected in (("2 3 3", "a1:4 a1:4 / a2:4 a2:4 b:3"), ("2 4 4", "a1:4 a2:4 / a1:4 a1:4 a2:4 a2:4"),
                                ("1 2 9", "a1:4 / a1:4 a2:4 a2:4 b:3"), ("1 6 6", "")):
            with self.subTest(asked=asked):
                self.assertEqual(self.read(places.format(asked), **three), expected.split())
        components = {"SLURM_HET_SIZE": "2", "SLURM_JOB_NODELIST_HET_GROUP_0": "s", "SLURM_TASKS_PER_NODE_HET_GROUP_0": "1",
                      "SLURM_JOB_NODELIST_HET_GROUP_1": "n[1-2]", "SLURM_TASKS_PER_NODE_HET_GROUP_1": "1(x2)",
                      "SLURM_CPUS_PER_TASK_HET_GROUP_1": "6"}
        self.assertEqual(self.read(places.format("1 2 2"), **components), "s:1:0 / n1:6:1 n2:6:1".split())

    def run_slurm(self, *arguments, **environment):
        return self.start("env", "-u", "SLURM_CONF", *(f"{name}={value}" for name, value in environment.items()), "bash",
                          harness.SOURCE / "scripts/run_slurm.sh", self.config, "--out", self.run_dir, "--bin", harness.BIN, *arguments)

    def allocation(self, tasks):
        """One host, this one; srun runs what it is told, here."""
        programs = self.folder / "bin"
        self.stand_in(programs / "srun", 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n')
        return {"PATH": f"{programs}:{os.environ['PATH']}", "SLURM_JOB_ID": 77, "SLURM_JOB_NODELIST": "localhost",
                "SLURM_TASKS_PER_NODE": tasks, "SLURM_JOB_CPUS_PER_NODE": tasks}

    def test_what_cannot_be_run_is_named_and_nothing_is_started(self):
        for environment, arguments, output_of in (
                ({}, (), "run_slurm: there is no Slurm allocation here: call it inside salloc or from an sbatch script"),
                (self.allocation(1), (), "run_slurm: job 77 has 1 tasks on 1 hosts; cluster.nodes is 2, expected a task for each "
                 "(sbatch --ntasks)"),
                (dict(self.allocation(3), SLURM_STEP_NUM_TASKS=3), (),
                 "run_slurm: srun started it 3 times; call it once, without srun: it starts all daemons itself"),
                (self.allocation(3), ("--force", "--resume-or-start"), "run_slurm: --resume-or-start and --force exclude each other"),
                (self.allocation(3), ("train.batch_size=0",),
                 'command line: train.batch_size: out of range, got "0", expected a whole number from 1 to 65536')):
            with self.subTest(output_of=output_of):
                script = self.run_slurm(*arguments, **environment)
                self.assertEqual((script.end(), script.errors(), script.output()), (2, [output_of], ""))
                self.assertFalse(self.run_dir.exists())

    def test_a_run_with_two_servers_beside_its_nodes(self):
        used = socket.create_server(("", 10077))  # what job 77 would take first
        script = self.run_slurm("cluster.shards=2", "train.total_iterations=40", "checkpoint.every_clocks=10", **self.allocation(2))
        self.assertEqual(script.end(), 0, script.errors())
        used.close()
        self.assertEqual(script.errors(), ["run_slurm: 2 threads of a node share 1 processors of a task; give more "
                                           "(sbatch --cpus-per-task), or fewer threads"])
        self.assertIn(f"{self.run_dir}: ok", script.output())
        written = (self.run_dir / "config.yaml").read_text()
        self.assertIn('"tcp://localhost:17996", "tcp://localhost:25915"', written)
        self.assertRegex(written, r'keys: "/tmp/paceline-job-77-\d+\.\w{6}/keys"')
        # As Slurm begins the job again: all shards are told the same.
        script = self.run_slurm("--force", "cluster.shards=2", "train.total_iterations=60", "checkpoint.every_clocks=10",
                                SLURM_RESTART_COUNT=1, **self.allocation(2))
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual((self.summary()["iterations"], self.summary()["generation"]), (60, 2))


ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")


@slurm.needs_slurm
class Slurm(ScriptTest):
    """In jobs of a real Slurm of four hosts."""

    ENDLESS = "train.total_iterations=100000000"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = harness.temporary_folder()
        process = slurm.begin(folder)
        cls.cluster, cls._process, cls.kept = slurm.Client(folder), process, (process.pid,)
        os.environ.update(cls.cluster.environment)

    @classmethod
    def tearDownClass(cls):
        cls._process.terminate()
        cls._process.wait(harness.DEADLINE)
        cls._process.stdout.close()
        del os.environ["SLURM_CONF"]
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.configure(text="")
        # As much as a job decides is left to it.
        text = self.config.read_text(encoding="utf-8").replace("nodes: 2", "nodes: 4")
        self.config.write_text(re.sub(r"  (endpoints|threads_per_node|shards): .*\n|run: .*\n", "", text), encoding="utf-8")
        self.jobs = []
        self.temporary = self.folder / "tmp"  # of all hosts, which are this machine
        self.temporary.mkdir()
        environment = unittest.mock.patch.dict(os.environ, TMPDIR=str(self.temporary))
        environment.start()
        self.addCleanup(environment.stop)

    def assert_no_folder_is_left(self):
        self.cluster.wait_until("folders with keys are gone", lambda: not list(self.temporary.iterdir()))

    def tearDown(self):
        for job in self.jobs:
            if self.cluster.state(job)[0] not in ENDS:
                self.cluster.ask("scancel", "--full", "--signal=KILL", job)
        self.cluster.wait_until("all jobs are gone", lambda: not self.cluster.ask("squeue", "-h"))
        super().tearDown()

    def submit(self, example, *arguments, options=()):
        """The number of a job by one of examples/slurm/."""
        return self.sbatch("--cpus-per-task=2", *options, harness.SOURCE / f"examples/slurm/{example}.sbatch", self.config,
                           "--out", self.run_dir, "--bin", harness.BIN, *arguments)

    def sbatch(self, *words):
        job = self.cluster.ask("sbatch", "--parsable", f"--chdir={harness.SOURCE}", f"--output={self.folder}/%A.out", *words).strip()
        self.assertRegex(job, r"^\d+$")
        self.jobs.append(job)
        return job

    def wait_for(self, job, state, restarts=0):
        self.cluster.wait_until(f"job {job} is {state}", lambda: self.cluster.state(job) == (state, restarts) or
                                self.cluster.state(job)[0] in set(ENDS) - {state}, 240)
        self.assertEqual(self.cluster.state(job), (state, restarts), self.output_of(job))
        if state in ENDS:
            self.cluster.wait_until("the job has left its hosts", lambda: not self.cluster.ask("squeue", "-h", "-j", job))

    def output_of(self, job):
        path = self.folder / f"{job}.out"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def log(self):
        path = self.run_dir / "server.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def wait_until_logged(self, pattern, times=1):
        """Until the server's log has so many lines of the pattern; the first group of the last one."""
        def found():
            return re.findall(pattern, self.log())
        self.cluster.wait_until(f"{times} x '{pattern}'", lambda: len(found()) >= times, harness.DEADLINE)
        return found()[-1]

    def wait_for_training(self):
        self.wait_until_logged("training begins")

    def assert_goes_on_where_it_stopped(self, times=1):
        """What was over last is where the newest generation begins: no iteration that the stopped run has counted is lost."""
        begun = self.wait_until_logged(r"training goes on at version (\d+)", times)
        self.assertEqual(re.findall(r"training is over at version (\d+)", self.log())[times - 1], begun, self.log())
        self.assertGreater(int(begun), 0)

    def daemon(self, role):
        """The process id of "--shard 0", "--node 1" of the one run there is."""
        for pid in harness.daemons_of(self._process.pid):
            if role in harness.command_of(pid):
                return pid
        return self.fail(f"no daemon {role}")

    def end_run(self, job):
        """Goes on with the run to an end nearby."""
        iterations = 8 * (int(re.findall(r"training is over at version (\d+)", self.log())[-1]) + 50)
        job = self.submit("four_nodes", "--resume-or-start", f"train.total_iterations={iterations}")
        self.wait_for(job, "COMPLETED")
        self.assertEqual((self.summary()["status"], self.summary()["iterations"]), ("ok", iterations), self.output_of(job))
        return job

    def test_host_lists_are_read_as_scontrol_reads_them(self):
        for given in ("n[0-3]", "tux[0-2,07,098-101],big", "a[0-1].b[2-3],c,c"):
            read = subprocess.run(["bash", "-uc", f". '{harness.SOURCE}/scripts/lib/slurm.sh' && expand_hosts '{given}'"],
                                  capture_output=True, text=True, check=True).stdout
            self.assertEqual(read, self.cluster.ask("scontrol", "show", "hostnames", given))

    def test_two_jobs_train_at_once_on_four_hosts_and_do_not_meet(self):
        jobs, addresses = [], []
        for run in ("a", "b"):
            self.run_dir = self.folder / run
            jobs.append(self.submit("four_nodes", "train.total_iterations=2000", "cluster.shards=2"))
        for run, job in zip(("a", "b"), jobs):
            self.run_dir = self.folder / run
            self.wait_for(job, "COMPLETED")
            self.assertIn(f"{self.run_dir}: ok", self.output_of(job))
            self.assertIn("all nodes (8 workers)", self.output_of(job))
            self.assertEqual(self.summary()["iterations"], 2000)
            self.assertTrue((self.run_dir / "model.bin").exists())
            written = (self.run_dir / "config.yaml").read_text(encoding="utf-8")
            addresses += re.findall(r"tcp://[\d.:]+", written)
            self.assertRegex(written, "keys: \"/tmp/")
        self.assertEqual(len(set(addresses)), 4, addresses)
        models = [(self.folder / run / "model.bin").read_bytes() for run in ("a", "b")]
        self.assertEqual(models[0], models[1])  # under bsp each has the bits of a run alone

    def test_a_killed_node_is_tolerated_and_a_cancelled_job_goes_on_where_it_was(self):
        job = self.submit("four_nodes", self.ENDLESS)
        self.wait_for_training()
        os.kill(self.daemon("--node 1"), signal.SIGKILL)
        self.wait_until_logged("node 1 lost")
        self.cluster.ask("scancel", "--batch", "--signal=USR1", job)
        self.wait_until_logged("is written: ", 1)
        self.cluster.ask("scancel", "--signal=USR1", job)  # to its steps
        self.wait_until_logged("is written: ", 2)
        self.cluster.ask("scancel", job)
        self.wait_for(job, "CANCELLED")
        self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("stopped", 1), self.output_of(job))
        self.assertLessEqual(self.summary()["iterations_lost"], 2)  # one of each of its workers
        self.end_run(job)
        self.assert_goes_on_where_it_stopped()

    def test_a_killed_server_ends_the_job(self):
        job = self.submit("four_nodes", self.ENDLESS)
        self.wait_for_training()
        server = self.daemon("--shard 0")
        with open(f"/proc/{server}/stat", encoding="utf-8") as file:
            its_script = int(file.read().rpartition(")")[2].split()[1])  # which would tidy up after it
        for pid in (its_script, server):
            os.kill(pid, signal.SIGKILL)
        self.wait_for(job, "FAILED")
        self.assertEqual(harness.daemons_of(self._process.pid), [])
        self.assert_no_folder_is_left()

    def test_a_job_whose_time_runs_out_saves_and_stops(self):
        job = self.submit("four_nodes", self.ENDLESS, options=("--time=1", "--signal=B:USR1@30"))
        self.wait_for(job, "TIMEOUT")
        self.assertIn("asked for a checkpoint", self.output_of(job))  # before there is a run, where the machine is slow
        self.assertEqual(self.summary()["status"], "stopped", self.output_of(job))
        self.end_run(job)
        self.assert_goes_on_where_it_stopped()

    def test_a_job_that_is_begun_again_goes_on(self):
        job = self.submit("requeue", self.ENDLESS)
        self.wait_for_training()
        urgent = self.cluster.ask("sbatch", "--parsable", "--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null",
                                  "--wrap=true").strip()
        self.assert_goes_on_where_it_stopped()
        self.wait_for(urgent, "COMPLETED")
        self.cluster.ask("scancel", "--batch", "--signal=USR1", job)  # as before its time runs out
        self.assert_goes_on_where_it_stopped(2)
        self.wait_for(job, "RUNNING", 2)
        self.assertIn("run_slurm: stopping, for the job to be begun again", self.output_of(job))
        self.cluster.ask("scancel", job)
        self.wait_for(job, "CANCELLED", 2)
        self.assertEqual(len(re.findall("is written: ", self.log())), 3)

    def test_the_jobs_of_an_array_have_a_run_directory_each(self):
        job = self.submit("seeds", "train.total_iterations=100", "cluster.nodes=2", options=("--array=3,5",))
        self.cluster.wait_until("the array has ended", lambda: not self.cluster.ask("squeue", "-h", "-j", job), 240)
        for seed in ("3", "5"):
            written = (self.run_dir / seed / "config.yaml").read_text(encoding="utf-8")
            self.assertIn(f"  seed: {seed}\n", written)
            self.assertIn('"ok"', (self.run_dir / seed / "summary.json").read_text(encoding="utf-8"))

    def test_sbatch_may_be_given_the_script_itself(self):
        """Also for a job array, whose last job has the array's number, and for a heterogeneous job."""
        words = (harness.SOURCE / "scripts/run_slurm.sh", self.config, "--bin", harness.BIN, "train.total_iterations=100")
        for options, arguments, runs in ((("--array=1-2", "--ntasks=2"), ("cluster.nodes=2",), ("array/1", "array/2")),
                                         (("--ntasks=1", ":", "--ntasks=4"), (), ("components",))):
            job = self.sbatch(*options, *words, "--out", self.folder / runs[0].partition("/")[0], *arguments)
            self.cluster.wait_until("the job has ended", lambda: not self.cluster.ask("squeue", "-h"), 240)
            for run in runs:
                self.assertTrue((self.folder / run / "model.bin").exists(), self.output_of(job))

    def host_fails(self, host):
        """As when Slurm does not reach it any more."""
        self.cluster.ask("scontrol", "update", f"NodeName={host}", "State=DOWN", "Reason=test")
        self.addCleanup(self.host_is_back, host)

    def host_is_back(self, host):
        if "DOWN" in self.cluster.ask("scontrol", "-o", "show", "node", host):
            self.cluster.ask("scontrol", "update", f"NodeName={host}", "State=RESUME")

    def test_a_job_whose_host_fails_begins_again_and_goes_on(self):
        job = self.submit("requeue", self.ENDLESS)
        self.wait_for_training()
        self.host_fails("n3")
        self.wait_until_logged(r"training is over at version (\d+)")
        self.cluster.wait_until("the job waits for the host", lambda: self.cluster.state(job) == ("PENDING", 1))
        self.host_is_back("n3")
        self.assert_goes_on_where_it_stopped()
        self.cluster.ask("scancel", job)
        self.wait_for(job, "CANCELLED", 1)

    def test_a_job_that_outlives_its_hosts_loses_the_nodes_there(self):
        job = self.submit("four_nodes", self.ENDLESS, options=("--no-kill",))
        self.wait_for_training()
        self.host_fails("n3")
        self.wait_until_logged("node 3 lost")
        self.assertEqual(self.cluster.state(job), ("RUNNING", 0))
        self.cluster.ask("scancel", job)
        self.wait_for(job, "CANCELLED")
        self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("stopped", 1), self.output_of(job))

    def test_a_heterogeneous_job_has_its_servers_in_its_first_component(self):
        job = self.submit("servers_apart", "train.total_iterations=100", "cluster.shards=2")
        self.cluster.wait_until("the job has ended", lambda: not self.cluster.ask("squeue", "-h"), 240)
        self.assertIn(f"{self.run_dir}: ok", self.output_of(job))
        self.assertIn("all nodes (8 workers)", self.output_of(job))

    def test_the_second_ctrl_c_ends_all_of_a_heterogeneous_job_at_once(self):
        job = self.submit("servers_apart", self.ENDLESS)
        self.wait_for_training()
        for pid in harness.daemons_of(self._process.pid, "paceline-worker"):
            os.kill(pid, signal.SIGSTOP)  # the orderly end has to wait for them
        self.cluster.ask("scancel", "--batch", "--signal=INT", job)
        self.cluster.wait_until("it stops", lambda: "stopping (again to end at once)" in self.output_of(job))
        self.cluster.ask("scancel", "--batch", "--signal=INT", job)
        self.wait_for(job, "FAILED")
        self.assertEqual(harness.daemons_of(self._process.pid), [])

    def salloc(self, options, *arguments):
        return self.start("salloc", "--quiet", *options, harness.SOURCE / "scripts/run_slurm.sh", self.config, "--out", self.run_dir,
                          "--bin", harness.BIN, *arguments)

    def test_what_cannot_be_run_is_named_and_nothing_is_left(self):
        script = self.salloc(("--nodes=2", "--ntasks=3"))
        self.assertEqual(script.end(), 2, script.errors())
        self.assertRegex(script.errors()[0], r"^run_slurm: job \d+ has 3 tasks on 2 hosts; cluster\.nodes is 4, expected a task for each")
        self.assertFalse(self.run_dir.exists())
        script = self.salloc(("--nodes=4",), f"data.path={self.folder}/none")
        self.assertEqual(script.end(), 2, script.errors())
        self.assertIn(f"data folder '{self.folder}/none' does not exist", " ".join(script.errors()))
        self.assertFalse(self.run_dir.exists())
        self.assertEqual(harness.daemons_of(self._process.pid), [])
        self.assert_no_folder_is_left()

    def test_the_doctor_looks_at_each_daemons_place(self):
        script = self.salloc(("--ntasks=5", "--cpus-per-task=2"), "--doctor")
        self.assertEqual(script.end(), 0, script.output())
        self.assertEqual(re.findall("^== (.*)", script.output(), re.M),
                         ["server shard 0 on n0", "node 0 on n0", "node 1 on n1", "node 2 on n1", "node 3 on n2"])

    def test_ctrl_c_stops_the_run_in_order(self):
        script = self.salloc(("--nodes=4", "--cpus-per-task=2"), self.ENDLESS)
        self.wait_for_training()
        for pid in harness.descendants_of(script.pid):
            if re.match(r"\S*bash \S*run_slurm\.sh ", harness.command_of(pid)):
                os.kill(pid, signal.SIGINT)
        self.assertEqual(script.end(), 1, script.errors())
        self.assertEqual(self.summary()["status"], "stopped", script.errors())


if __name__ == "__main__":
    harness.main()
