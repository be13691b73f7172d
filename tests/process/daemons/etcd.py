"""A real etcd for a test, on ports that nobody has. See harness.py."""

import json
import shutil
import socket
import unittest
import urllib.request

needs_etcd = unittest.skipUnless(shutil.which("etcd"), "there is no etcd here (scripts/install_deps.sh --etcd)")


def end_all_leases(endpoint):
    """As if their time had run out: the keys under them go. How many there were."""
    def ask(what, **body):
        request = urllib.request.Request(f"{endpoint}/v3/lease/{what}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    leases = [each["ID"] for each in ask("leases").get("leases", [])]
    for lease in leases:
        ask("revoke", ID=lease)
    return len(leases)


def free_ports(count):
    taken = [socket.socket() for _ in range(count)]
    try:
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
    finally:
        for each in taken:
            each.close()


def command(folder, client, peer):
    """An etcd of one member, its files in `folder`, that listens at these URLs."""
    return ["etcd", "--data-dir", folder, "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            "--log-level", "error"]


def start(test):
    """One on this machine, which ends with the test; the process and its endpoint."""
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    program = test.start(*command(test.folder / "etcd", client, peer))
    return program, client
