"""Small ONNX models: a tagger exported in training or in evaluation mode."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper


def tagger(*, training: bool, metadata: bool = False) -> bytes:
    """A convolution, BatchNorm and ReLU; in training mode BatchNorm has three outputs."""
    import numpy as np

    width = 4
    arrays = {
        "stem.conv.weight": np.ones((width, 3, 3, 3), np.float32),
        "stem.bn.weight": np.ones(width, np.float32),
        "stem.bn.bias": np.zeros(width, np.float32),
        "stem.bn.running_mean": np.zeros(width, np.float32),
        "stem.bn.running_var": np.ones(width, np.float32),
    }
    names = list(arrays)
    outs = ["/stem/bn/BatchNormalization_output_0"]
    outs += ["/stem/bn/BatchNormalization_output_1", "/stem/bn/BatchNormalization_output_2"] if training else []
    nodes = [
        helper.make_node(
            "Conv", ["image", names[0]], ["/stem/conv/Conv_output_0"], "/stem/conv/Conv", pads=[1, 1, 1, 1]
        ),
        helper.make_node(
            "BatchNormalization",
            ["/stem/conv/Conv_output_0", *names[1:]],
            outs,
            "/stem/bn/BatchNormalization",
            training_mode=int(training),
        ),
        helper.make_node("Relu", [outs[0]], ["tags"], "/stem/act/Relu"),
    ]
    if metadata:
        for node, scope, line, code in (
            (nodes[0], "stem.conv", 15, "return self.act(self.bn(self.conv(x)))"),
            (nodes[2], "stem.act", 15, "return self.act(self.bn(self.conv(x)))"),
        ):
            stack = f'File "/home/trainer/projects/tags/tagger.py", line {line}, in forward\n    {code}'
            for key, value in (("name_scopes", f"['', 'stem', '{scope}', 'op']"), ("stack_trace", stack)):
                node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    data: bytes = _model(nodes, [numpy_helper.from_array(a, n) for n, a in arrays.items()]).SerializeToString()
    return data


def quantized_tagger(scale: float) -> bytes:
    """A convolution with a Q/DQ pair behind it; `scale` is that of the second of four channels."""
    import numpy as np

    arrays: dict[str, np.ndarray] = {
        "stem.conv.weight": np.ones((4, 3, 3, 3), np.float32),
        "scales": np.array([0.02, scale, 0.02, 0.02], np.float32),
        "zeros": np.zeros(4, np.int8),
    }
    conv, quantized = "/stem/conv/Conv_output_0", "/stem/conv/Conv_output_0_q"
    pair = ("scales", "zeros")
    nodes = [
        helper.make_node("Conv", ["image", "stem.conv.weight"], [conv], "/stem/conv/Conv", pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", [conv, *pair], [quantized], f"{conv}_QuantizeLinear", axis=1),
        helper.make_node("DequantizeLinear", [quantized, *pair], ["tags"], f"{conv}_DequantizeLinear", axis=1),
    ]
    data: bytes = _model(nodes, [numpy_helper.from_array(a, n) for n, a in arrays.items()]).SerializeToString()
    return data


def _model(nodes: Sequence[NodeProto], initializers: Sequence[TensorProto]) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 32, 32])],
        [helper.make_tensor_value_info("tags", TensorProto.FLOAT, ["batch", 4, 32, 32])],
        initializers,
    )
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="pytorch")
    model.ir_version, model.producer_version = 8, "2.6.0"
    return model
