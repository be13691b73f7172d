"""Runs what the containers of examples/kubernetes/jobset.yaml run, as processes of this machine: each in a mount namespace of its
own, with the volumes where the manifest has them. Nodes come first, and wait for a server whose name is not known yet. It shows
that commands, files and configuration fit each other; of Kubernetes it shows nothing.

    pods.py PROGRAMS     as root; needs pyyaml. PROGRAMS: the folder of paceline, paceline-server and paceline-worker
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import yaml

MANIFEST = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/kubernetes/jobset.yaml"
# For what hangs; a machine may be busy.
PATIENCE_S = 1200

# A root of its own: the programs of this machine, the volumes of the pod, and nothing that is written to stays.
POD = """
set -e
name=$1 own=$2 given=$3 programs=$4 root=$2/root
shift 4
hostname "$name"
mkdir -p "$own"/{root,tmp,run}
chmod 1777 "$own"/{tmp,run}
mount -t tmpfs none "$root"
mkdir -p "$root"/{usr,proc,dev,etc/paceline,tmp,run-dir,secret,programs}
ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root"
cp /etc/{passwd,group,nsswitch.conf,ld.so.cache} "$root/etc"
touch "$root/etc/hosts"
for bound in /usr /proc /dev; do mount --bind "$bound" "$root$bound"; done
mount -t tmpfs -o mode=1777 none "$root/dev/shm"
mount --bind "$given/config" "$root/etc/paceline"
mount --bind "$given/keys" "$root/secret"
mount --bind "$given/hosts" "$root/etc/hosts"
mount --bind "$own/tmp" "$root/tmp"
mount --bind "$own/run" "$root/run-dir"
mount --bind "$programs" "$root/programs"
exec chroot "$root" setpriv --reuid=1000 --regid=1000 --clear-groups --no-new-privs --bounding-set=-all "$@"
"""


def pod(folder, name, index, container, programs):
    """One container of a pod, as the user of the image."""
    return subprocess.Popen(["unshare", "--mount", "--uts", "bash", "-c", POD, "pod", name, folder / name, folder, programs,
                             *container["command"]],
                            env={"PATH": "/programs:/usr/bin:/usr/sbin", "JOB_COMPLETION_INDEX": str(index), "HOME": "/tmp"}, cwd="/")


def await_log(run):
    """Until a node has begun, which then looks for its server; its data are made before that."""
    deadline = time.monotonic() + PATIENCE_S
    while not list(run.glob("worker-*.log")):
        if time.monotonic() > deadline:
            raise SystemExit(f"no log in {run} within {PATIENCE_S} s")
        time.sleep(0.1)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    config_map, job_set = yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        folder = pathlib.Path(made)
        folder.chmod(0o755)
        (folder / "config").mkdir()
        for name, text in config_map["data"].items():
            (folder / "config" / name).write_text(text, encoding="utf-8")
        subprocess.run([programs / "paceline", "keygen", "--out", folder / "keys", "--nodes", "4"], check=True, stdout=subprocess.DEVNULL)
        for path in (folder / "keys", *(folder / "keys").iterdir()):  # as a secret's volume has them
            os.chown(path, 0, 1000)
            path.chmod(0o750 if path.is_dir() else 0o440)
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n", encoding="utf-8")
        running = {}
        try:
            for job in sorted(job_set["spec"]["replicatedJobs"], key=lambda job: job["name"]):  # nodes, then the server
                container, = job["template"]["spec"]["template"]["spec"]["containers"]
                if job["name"] == "server":
                    for name in running:
                        await_log(folder / name / "run/paceline")
                    with open(hosts, "a", encoding="utf-8") as file:  # the service has it now
                        file.write("127.0.0.1 paceline-server-0-0.paceline\n")
                for index in range(job["template"]["spec"]["completions"]):
                    name = f"paceline-{job['name']}-0-{index}"
                    running[name] = pod(folder, name, index, container, programs)
            ended = {name: process.wait(PATIENCE_S) for name, process in running.items()}
        finally:
            for process in running.values():
                process.kill()
                process.wait()
        status = (folder / "paceline-server-0-0/run/paceline/summary.json").read_text(encoding="utf-8") if not any(ended.values()) else ""
    print(ended)
    print("the run ended well" if '"status": "ok"' in status else "the run did not end well")
    sys.exit(0 if '"status": "ok"' in status else 1)


if __name__ == "__main__":
    main()
