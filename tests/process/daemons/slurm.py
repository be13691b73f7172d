"""A real Slurm of four hosts on this machine: munged, slurmctld and four slurmd, as the user who runs it, with everything in
one folder and on ports that nobody has. See harness.py; this file is the process that runs one until it is told to end, for
tests and to try things out:

    python3 tests/process/daemons/slurm.py /tmp/slurm     # then: export SLURM_CONF=/tmp/slurm/slurm.conf
"""

import ctypes
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from etcd import free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
os.environ["PATH"] += ":/usr/sbin"
needs_slurm = unittest.skipUnless(all(map(shutil.which, PROGRAMS)), "there is no Slurm here (scripts/install_deps.sh --slurm)")

HOSTS, CPUS = 4, 4  # the processors are said, not there
PR_SET_CHILD_SUBREAPER = 36
KILL_WAIT = 15  # seconds from SIGTERM to SIGKILL at a job's end

# cred_expire is also how long a requeued job waits; the least that is taken.
CONFIGURATION = """\
ClusterName=paceline
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerNode=200
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1
PriorityType=priority/basic
SlurmdParameters=config_overrides
KillWait={kill_wait}
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=all Nodes=ALL Default=YES OverSubscribe=NO PriorityTier=1
PartitionName=urgent Nodes=ALL OverSubscribe=NO PriorityTier=2
"""


class Client:
    """Asks a Slurm whose files are in `folder`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))

    def ask(self, *command):
        return subprocess.run(list(map(str, command)), env=self.environment, capture_output=True, text=True, timeout=60,
                              check=False).stdout

    def state(self, job):
        """RUNNING, TIMEOUT …, and how often it was begun again."""
        fields = dict(field.partition("=")[::2] for field in self.ask("scontrol", "-o", "show", "job", job).split())
        return fields.get("JobState"), int(fields.get("Restarts", 0))

    def wait_until(self, what, is_so, deadline=60):
        """Slurm tells nobody: it is asked."""
        end = time.monotonic() + deadline
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError(f"not within {deadline} s: {what}")
            time.sleep(0.1)


class Cluster(Client):
    """Its daemons, from start() to stop()."""

    def __init__(self, folder):
        super().__init__(folder)
        self._daemons = []

    def start(self):
        for name in ("munge", "state", *(f"n{i}" for i in range(HOSTS))):
            (self.folder / name).mkdir(mode=0o700)
        ports = free_ports(1 + HOSTS)
        host = socket.gethostname().partition(".")[0]
        nodes = "\n".join(f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1 + i]} CPUs={CPUS} RealMemory=1000"
                          for i in range(HOSTS))
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, ports=ports, user=pwd.getpwuid(os.getuid()).pw_name, folder=self.folder, kill_wait=KILL_WAIT, nodes=nodes))
        munge = self.folder / "munge"
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o600)
        # --force: the folder above, /tmp, is everybody's.
        self._begin("munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                    f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self.wait_until("munged answers", lambda: (munge / "socket").exists())
        self._begin("slurmctld", "-D", "-c")
        for i in range(HOSTS):
            self._begin("slurmd", "-D", "-N", f"n{i}")
        self.wait_until("all hosts are idle", lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(HOSTS))

    def stop(self):
        """In an order in which each can tell the others."""
        for job in self.ask("squeue", "-h", "-o", "%i").split():
            self.ask("scancel", "--full", "--signal=KILL", job)
        self.wait_until("all jobs are gone", lambda: not self.ask("squeue", "-h"))
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(60)

    def _begin(self, *command):
        log = open(self.folder / f"{command[0]}.out", "ab")  # pylint: disable=consider-using-with
        self._daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        log.close()


def begin(folder):
    """One as a process of its own, below which all of its own stay."""
    process = subprocess.Popen([sys.executable, __file__, folder], stdout=subprocess.PIPE, text=True)
    if not process.stdout.readline():
        raise AssertionError("Slurm does not start; what its daemons say is above")
    return process


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))  # whenever it comes, what has begun is ended
    at = pathlib.Path(sys.argv[1]).absolute()
    at.mkdir(mode=0o755, exist_ok=True)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    cluster = Cluster(at)
    try:
        cluster.start()
        print(f"export SLURM_CONF={at}/slurm.conf", flush=True)
        signal.pause()
    finally:
        cluster.stop()
        shutil.rmtree(at)
