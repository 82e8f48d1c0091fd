"""Networks as ONNX: fully connected layers with tanh between them, as policies have them."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from cellpace import _native
from cellpace._report import write_bytes

Layer = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Weights, a row for each output, and bias."""

_SAME = {"Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast", "Dropout"}
"""Operations that leave the numbers of one observation as they are."""


def read_layers(path: str | PathLike[str]) -> list[Layer]:
    """The layers of a file. Its graph is one chain of ``Gemm`` or ``MatMul`` and ``Add``, with ``Tanh`` between them."""
    onnx = _onnx()
    name = fspath(path)
    try:
        graph = onnx.load(name).graph
    except FileNotFoundError:
        raise _native.CellpaceError(f"there is no file `{name}`") from None
    except Exception as error:
        raise _native.CellpaceError(f"{name}: no ONNX model: {error}") from None
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    inputs = [one.name for one in graph.input if one.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise _native.CellpaceError(f"{name}: {len(inputs)} inputs and {len(graph.output)} outputs; a policy has one of each")
    layers: list[Layer] = []
    is_open = True  # the last layer has no tanh behind it
    at = inputs[0]
    for node in _chain(name, graph, constants, at):
        kind = node.op_type
        if kind == "Tanh":
            if is_open:
                _refuse(name, node, "stands in front of the first layer, or behind another Tanh")
            is_open = True
        elif kind in ("Gemm", "MatMul"):
            if not is_open:
                _refuse(name, node, "follows another layer without Tanh between them")
            layers.append(_layer(name, node, constants, onnx))
            is_open = False
        elif kind == "Add":
            if is_open or not layers:
                _refuse(name, node, "adds to what is no layer")
            weights, bias = layers[-1]
            layers[-1] = (weights, bias + _constant(name, node, constants).reshape(-1))
        elif kind not in _SAME:
            _refuse(name, node, "is none of Gemm, MatMul, Add, Tanh")
    if not layers or is_open:
        raise _native.CellpaceError(f"{name}: it does not end with a layer")
    return layers


def write_layers(path: str | PathLike[str], layers: list[Layer], about: str) -> None:
    """Writes layers as a model with the input ``observation`` and the output ``action``. Numbers are of 32 bits where
    that loses nothing, otherwise of 64."""
    onnx = _onnx()
    numbers = [array for layer in layers for array in layer]
    is_short = all((array.astype(np.float32) == array).all() for array in numbers)
    kind = np.dtype(np.float32 if is_short else np.float64)
    proto = onnx.TensorProto.FLOAT if is_short else onnx.TensorProto.DOUBLE
    nodes, constants, at = [], [], "observation"
    for number, (weights, bias) in enumerate(layers):
        names = [f"weights_{number}", f"bias_{number}"]
        constants += [
            onnx.numpy_helper.from_array(array.astype(kind), name)
            for name, array in zip(names, (weights, bias), strict=True)
        ]
        is_last = number == len(layers) - 1
        out = "action" if is_last else f"sum_{number}"
        nodes.append(onnx.helper.make_node("Gemm", [at, *names], [out], transB=1))
        if not is_last:
            at = f"hidden_{number}"
            nodes.append(onnx.helper.make_node("Tanh", [out], [at]))
    ends = [("observation", layers[0][0].shape[1]), ("action", layers[-1][0].shape[0])]
    shapes = [onnx.helper.make_tensor_value_info(name, proto, ["batch", size]) for name, size in ends]
    graph = onnx.helper.make_graph(nodes, "policy", shapes[:1], shapes[1:], constants, doc_string=about)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    write_bytes(path, model.SerializeToString())


def _onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise _native.CellpaceError("ONNX takes the package onnx: pip install cellpace[onnx]") from None
    return onnx


def _chain(name: str, graph: Any, constants: dict[str, Any], at: str) -> Iterator[Any]:
    """The nodes from the input on, in order. Constants that nodes make are put with the others."""
    left = list(graph.node)
    for node in [node for node in left if node.op_type == "Constant"]:
        left.remove(node)
        constants[node.output[0]] = _value(node)
    while left:
        following = [node for node in left if at in node.input]
        if len(following) != 1:
            raise _native.CellpaceError(f"{name}: `{at}` goes to {len(following)} operations; a policy is one chain")
        node = following[0]
        left.remove(node)
        yield node
        at = node.output[0]
    if at != graph.output[0].name:
        raise _native.CellpaceError(f"{name}: the chain ends at `{at}`, not at the output `{graph.output[0].name}`")


def _value(node: Any) -> npt.NDArray[Any]:
    onnx = _onnx()
    found = [one.t for one in node.attribute if one.name == "value"]
    return onnx.numpy_helper.to_array(found[0]) if found else np.zeros(0)


def _layer(name: str, node: Any, constants: dict[str, Any], onnx: Any) -> Layer:
    settings = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    if settings.get("transA", 0) or node.input[1] not in constants:
        _refuse(name, node, "multiplies something else than the observation by weights")
    weights = constants[node.input[1]].astype(np.float64)
    if weights.ndim != 2:
        _refuse(name, node, f"has weights of {weights.ndim} dimensions")
    if node.op_type == "MatMul" or not settings.get("transB", 0):
        weights = weights.T
    bias = np.zeros(weights.shape[0])
    if len(node.input) > 2:
        if node.input[2] not in constants:
            _refuse(name, node, "adds what is no constant")
        bias = bias + settings.get("beta", 1.0) * constants[node.input[2]].astype(np.float64).reshape(-1)
    return settings.get("alpha", 1.0) * weights, bias


def _constant(name: str, node: Any, constants: dict[str, Any]) -> npt.NDArray[np.float64]:
    found = [constants[one] for one in node.input if one in constants]
    if len(found) != 1:
        _refuse(name, node, "adds what is no constant")
    return found[0].astype(np.float64)


def _refuse(name: str, node: Any, why: str) -> NoReturn:
    raise _native.CellpaceError(f"{name}: {node.op_type} `{node.name or node.output[0]}` {why}")
