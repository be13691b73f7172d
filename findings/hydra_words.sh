#!/usr/bin/env bash
# Hydra: what is a truth value, a number or a time in the file is a text on the command line, and the texts no and off are true.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q hydra-core==1.3.8 omegaconf==2.3.1
mkdir "$tmp/conf"
cat >"$tmp/conf/train.yaml" <<'YAML'
augment: on
workers: 8
minutes: 90
clip: .inf
YAML
cat >"$tmp/train.py" <<'PY'
import json

import hydra


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(config):
    """Says what a training would do."""
    print(json.dumps({"augments": bool(config.augment), **{key: repr(value) for key, value in config.items()}}))


main()
PY
cat >"$tmp/check.py" <<'PY'
import json
import pathlib
import subprocess
import sys
from importlib.metadata import version

from omegaconf import OmegaConf

print("hydra-core", version("hydra-core"), "omegaconf", version("omegaconf"))
print("guess: augment=off on the command line is augment: off in the file, which is a truth value")


def run(*overrides):
    done = subprocess.run([sys.executable, "train.py", "hydra.run.dir=out", "hydra.output_subdir=null", *overrides], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


preset = pathlib.Path("conf/train.yaml").read_text()
seen = {}
for key, was, word in (("augment", "on", "off"), ("augment", "on", "no"), ("augment", "on", "false"), ("workers", "8", "010"),
                       ("minutes", "90", "12:30:00"), ("clip", ".inf", ".inf"), ("clip", ".inf", "inf"), ("clip", ".inf", "1e3")):
    on_line = run(f"{key}={word}")
    path = pathlib.Path("conf/train.yaml")
    path.write_text(preset.replace(f"{key}: {was}", f"{key}: {word}"))
    in_file = run()
    path.write_text(preset)
    in_list = repr(OmegaConf.from_dotlist([f"{key}={word}"])[key])
    seen[key, word] = in_file[key], in_list, on_line[key]
    print(f"{key} {word}: {in_file[key]} in the file, {in_list} by OmegaConf.from_dotlist, {on_line[key]} on Hydra's command line", end="")
    print(f"; the training augments: {in_file['augments']} and {on_line['augments']}" if key == "augment" else "")
    if word in ("off", "no"):
        seen[key, word] += in_file["augments"], on_line["augments"]
as_found = seen == {
    ("augment", "off"): ("False", "False", "'off'", False, True),
    ("augment", "no"): ("False", "False", "'no'", False, True),
    ("augment", "false"): ("False", "False", "False"),
    ("workers", "010"): ("8", "8", "'010'"),
    ("minutes", "12:30:00"): ("45000", "45000", "'12:30:00'"),
    ("clip", ".inf"): ("inf", "inf", "'.inf'"),
    ("clip", "inf"): ("'inf'", "'inf'", "inf"),
    ("clip", "1e3"): ("1000.0", "1000.0", "1000.0"),
}
print("as found: augment=off switches the augmentation on" if as_found else f"CHANGED: {seen}")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
