"""The examples for Kubernetes are what its schemas say."""

from pathlib import Path

import pytest

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate")
EXAMPLES = sorted((Path(__file__).parents[2] / "examples/kubernetes").glob("*.yaml"))


def documents(path: Path) -> list[object]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_object_is_known(path: Path) -> None:
    found = documents(path)
    assert found
    for document in found:
        kubernetes_validate.validate(document, "1.37", strict=True)


def test_a_field_that_is_not_known_is_found() -> None:
    document = documents(EXAMPLES[0])[0]
    assert isinstance(document, dict)
    document["spec"]["no_such_field"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, "1.37", strict=True)
