"""The manifests of examples/kubernetes against the schema of JobSet, without a cluster: types, required fields, and no field that
the schema does not know.

    manifests.py FILE…     needs pyyaml and kubeflow-trainer-api, whose models are made of the schema (pip install)
"""

import sys

import yaml
from kubeflow_trainer_api import models

KINDS = {"JobSet": models.JobsetV1alpha2JobSet}
PLAIN = {"ConfigMap": {"apiVersion", "kind", "metadata", "data"}}


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
    if kind in PLAIN:
        return [f"{kind}.{key}: not known" for key in document if key not in PLAIN[kind]]
    if kind not in KINDS:
        return [f"kind {kind}: expected one of {', '.join([*KINDS, *PLAIN])}"]
    try:
        model = KINDS[kind].from_dict(document)
    except ValueError as error:
        return str(error).splitlines()
    return [f"{kind}{field}: not known" for field in unknown(document, model.to_dict())]


def main():
    faults = [f"{name}: {fault}" for name in sys.argv[1:] for document in yaml.safe_load_all(open(name, encoding="utf-8"))
              for fault in faults_of(document)]
    print("\n".join(faults) or "every manifest fits its schema")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
