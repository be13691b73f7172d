"""The manifests of examples/kubernetes against the schema of JobSet, without a cluster: types, required fields, and no field that
the schema does not know.

    manifests.py [--paceline PROGRAM] FILE…     needs pyyaml and kubeflow-trainer-api, whose models are made of the schemas of JobSet
                                                and Kubernetes (pip install). With the program each configuration is checked, too
"""

import argparse
import subprocess
import sys
import tempfile

import yaml
from kubeflow_trainer_api import models

KINDS = {"JobSet": models.JobsetV1alpha2JobSet, "ConfigMap": models.IoK8sApiCoreV1ConfigMap}


def faults_of_configuration(program, text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        checked = subprocess.run([program, "check-config", file.name], capture_output=True, text=True, check=False)
    return checked.stderr.splitlines() if checked.returncode else []


def unknown(given, understood, path=""):
    """Fields of `given` that did not come back from the model."""
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(understood, dict) or key not in understood:
                yield f"{path}.{key}"
            else:
                yield from unknown(value, understood[key], f"{path}.{key}")
    elif isinstance(given, list):
        for i, (value, other) in enumerate(zip(given, understood)):
            yield from unknown(value, other, f"{path}[{i}]")


def faults_of(document):
    kind = document.get("kind")
    if kind not in KINDS:
        return [f"kind {kind}: expected one of {', '.join(KINDS)}"]
    try:
        model = KINDS[kind].from_dict(document)
    except ValueError as error:
        return str(error).splitlines()
    return [f"{kind}{field}: not known" for field in unknown(document, model.to_dict())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paceline")
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    faults = []
    for name in given.files:
        for document in yaml.safe_load_all(open(name, encoding="utf-8")):
            faults += [f"{name}: {fault}" for fault in faults_of(document)]
            if given.paceline and document.get("kind") == "ConfigMap":
                faults += [f"{name}: {fault}" for text in document.get("data", {}).values()
                           for fault in faults_of_configuration(given.paceline, text)]
    print("\n".join(faults) or "every manifest fits its schema")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
