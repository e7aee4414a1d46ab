"""Operations that one kernel could do: attention, normalisations, activations, chains, biases, optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.tracing import TraceBuilder

BF16 = "c10::BFloat16"
PRODUCT = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_fwd_params)"  # noqa: E501
SIMPLE = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<c10::BFloat16>, std::array<char*, 3ul> >(int)"  # noqa: E501
SCORES = [8, 16, 1024, 1024]
HIDDEN = [8, 1024, 1024]

Body = Callable[["Program"], None]


class Program:
    """A builder with the shapes switched off or on."""

    def __init__(self, trace: TraceBuilder, shapes: bool) -> None:
        self.t, self._shapes = trace, shapes
        self.sequence = 40

    @contextmanager
    def op(self, name: str, *dims: Sequence[int], kind: str = BF16) -> Iterator[None]:
        """An operator of the forward pass."""
        self.sequence += 1
        told = [list(d) for d in dims] if self._shapes else None
        with self.t.op(f"aten::{name}", dims=told, types=[kind] * len(dims) if told else None, sequence=self.sequence):
            yield

    def run(self, name: str, us: float, *dims: Sequence[int], kernel: str = SIMPLE) -> None:
        """An operator and its kernel."""
        with self.op(name, *dims):
            self.t.launch(kernel, us=us)

    def backward(self, node: str, sequence: int, us: float) -> None:
        """The backward node of a forward operator, on autograd's thread."""
        with self.t.on(self.t.main + 9):
            evaluate = f"autograd::engine::evaluate_function: {node}"
            with self.t.op(evaluate, sequence=sequence), self.t.op(node, sequence=sequence), self.t.op("aten::mul"):
                self.t.launch(SIMPLE, us=us)


def model(
    body: Body, *, stacks: bool = True, shapes: bool = True, rest_us: float = 4000, steps: int = 3,
    frames: tuple[str, ...] = ("mix_tokens.py(33): forward",),
) -> TraceBuilder:  # fmt: skip
    """Steps of a large product and the body, in the function of `frames`."""
    options = (*(["with_stack"] if stacks else []), *(["record_shapes"] if shapes else []))
    t = TraceBuilder(options=options)
    main = ("mix_tokens.py(120): <module>", "mix_tokens.py(88): main") if stacks else ()
    with t.frame(*main):
        for number in range(steps):
            program = Program(t, shapes)
            with t.step(number):
                with t.frame(*(frames if stacks else ())):
                    columns = int(5.16 * rest_us) // 64 * 64  # 70 % of an H100's peak
                    program.run("mm", rest_us, [8192, 8192], [8192, columns], kernel=PRODUCT)
                    body(program)
                with t.op("aten::item"):
                    t.wait()
    return t


def attention(p: Program) -> None:
    """Two products around a softmax."""
    p.run("bmm", 90, [128, 1024, 64], [128, 64, 1024], kernel=PRODUCT)
    p.run("div", 160, SCORES)
    p.run("masked_fill_", 300, SCORES, [1024, 1024])
    p.run("_softmax", 280, SCORES, kernel="void (anonymous namespace)::softmax_warp_forward<c10::BFloat16>(int)")
    softmax = p.sequence
    p.run("bmm", 90, [128, 1024, 1024], [128, 1024, 64], kernel=PRODUCT)
    p.backward("SoftmaxBackward0", softmax, 260)


def fallen_back(p: Program) -> None:
    """scaled_dot_product_attention that takes its formula."""
    with p.op("scaled_dot_product_attention", [8, 16, 1024, 64]), p.op("_scaled_dot_product_attention_math"):
        attention(p)


def flash(p: Program) -> None:
    """The fused operator."""
    with p.op("scaled_dot_product_attention", [8, 16, 1024, 64]):
        p.run("_flash_attention_forward", 150, [8, 1024, 16, 64], kernel=FLASH)


def routing(p: Program) -> None:
    """Products and a softmax that are no attention: a router's probabilities, and the experts' products."""
    p.run("bmm", 110, [16, 512, 1024], [16, 1024, 4096], kernel=PRODUCT)
    p.run("_softmax", 400, [8192, 16])
    p.run("bmm", 110, [16, 512, 4096], [16, 4096, 1024], kernel=PRODUCT)


def rms_norm(p: Program) -> None:
    """`x * rsqrt(mean(x ** 2) + eps) * weight`."""
    for _ in range(2):
        p.run("copy_", 60, HIDDEN, HIDDEN)
        p.run("pow", 70, HIDDEN)
        p.run("mean", 50, HIDDEN)
        p.run("add", 2, [8, 1024, 1])
        p.run("rsqrt", 2, [8, 1024, 1])
        p.run("mul", 80, HIDDEN, [8, 1024, 1])
        p.run("mul", 80, HIDDEN, [1024])
        p.run("mm", 50, [8192, 1024], [1024, 2048], kernel=PRODUCT)


def layer_norm(p: Program) -> None:
    """The fused operator."""
    for _ in range(2):
        p.run("native_layer_norm", 400, HIDDEN)
        p.run("mm", 50, [8192, 1024], [1024, 2048], kernel=PRODUCT)


def gelu(p: Program) -> None:
    """`0.5 * x * (1 + tanh(c * (x + 0.044715 * x ** 3)))`."""
    for name in ("mul", "pow", "mul", "add", "mul", "tanh", "add", "mul"):
        p.run(name, 60, HIDDEN)


def rotary(p: Program) -> None:
    """`cat([a * cos - b * sin, b * cos + a * sin])`."""
    half = [8, 16, 1024, 32]
    for name in ("mul", "mul", "sub", "mul", "mul", "add"):
        p.run(name, 50, half, [1024, 32] if name == "mul" else half)
    p.run("cat", 70)


def mean_square(p: Program) -> None:
    """A loss: the mean of squares, which is no normalisation."""
    p.run("pow", 300, HIDDEN)
    p.run("mean", 300, HIDDEN)


def compiled(p: Program) -> None:
    """Attention and its like below torch.compile, with a backend that runs them one by one."""
    with p.t.op("Torch-Compiled Region: 0/0"):
        attention(p)


def chain(us: float, names: Sequence[str] = ("sub", "abs", "mul", "add", "sigmoid", "mul")) -> Body:
    """Element-wise operators in a row."""

    def run(p: Program) -> None:
        for name in names:
            p.run(name, us, HIDDEN)

    return run


def twice_three(p: Program) -> None:
    """Two short runs of element-wise operators."""
    short = chain(40, ("relu", "mul", "add"))
    short(p)
    p.run("mm", 60, [8192, 1024], [1024, 2048], kernel=PRODUCT)
    short(p)


def apart(p: Program) -> None:
    """The same operators with products between them."""
    for name in ("sub", "abs", "mul", "add", "sigmoid", "mul"):
        p.run(name, 150, HIDDEN)
        p.run("mm", 50, [8192, 1024], [1024, 2048], kernel=PRODUCT)


def convolved(*, bias: bool = True, training: bool = True, between: bool = False, bias_us: float = 30) -> Body:
    """Convolutions and the BatchNorms behind them."""

    def run(p: Program) -> None:
        for _ in range(3):
            image, weight = [32, 64, 56, 56], [64, 64, 3, 3]
            with p.op("conv2d", image, weight, [64] if bias else []), p.op("convolution"), p.op("_convolution"):
                p.run("cudnn_convolution", 300, image, weight, kernel="sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32")
                if bias:
                    p.run("add_", bias_us, image, [1, 64, 1, 1])
            if between:
                p.run("relu", 30, image)
            values: dict[str, Any] = {"Concrete Inputs": [*[""] * 5, str(training), "0.1", "1e-05", "True"]}
            with p.t.op("aten::batch_norm", dims=[image, [64], [64], [64], [64], [], [], [], []],
                        types=[BF16] * 5 + ["Scalar"] * 4, **values):  # fmt: skip
                p.run("cudnn_batch_norm", 90, image)

    return run


def stepping(
    operators: Sequence[str], *, parameters: int, frame: str = "_single_tensor_adam", stacks: bool = True,
    name: str = "AdamW", compute_us: float = 1500,
) -> dict[str, TraceBuilder]:  # fmt: skip
    """Training steps whose optimizer launches these operators for each of its parameters."""
    t = TraceBuilder(options=("with_stack",) if stacks else ())
    main = ("sort_parcels.py(77): <module>", "sort_parcels.py(52): train") if stacks else ()
    inner = ("torch/optim/optimizer.py(512): wrapper", f"torch/optim/adam.py(345): {frame}") if stacks else ()
    with t.frame(*main):
        for number in range(3):
            with t.step(number):
                with t.op("aten::mm"):
                    t.launch(PRODUCT, us=compute_us)
                with t.op("aten::item"):
                    t.wait()
                with t.annotation(f"Optimizer.step#{name}.step"), t.frame(*inner):
                    for _ in range(parameters):
                        for operator in operators:
                            with t.op(f"aten::{operator}"):
                                t.host(4)
                                t.launch(SIMPLE, us=2)
                with t.op("aten::item"):
                    t.wait()
    return {"input.json.gz": t}


ONE = ("mul_", "lerp_", "mul_", "addcmul_", "sqrt", "div", "add_", "addcdiv_")
ALL = ("_foreach_mul_", "_foreach_lerp_", "_foreach_mul_", "_foreach_addcmul_", "_foreach_sqrt", "_foreach_addcdiv_")

CASES: dict[str, Callable[[], TraceBuilder | dict[str, TraceBuilder]]] = {
    "FUS002/fires-attention": lambda: model(attention),
    "FUS002/fires-attention-without-stacks": lambda: model(attention, stacks=False),
    "FUS002/fires-attention-fallen-back": lambda: model(fallen_back),
    "FUS002/fires-attention-of-a-library": lambda: model(
        attention, frames=("transformers/models/opt/modeling_opt.py(101): eager_attention_forward",)
    ),
    "FUS002/fires-rms-norm": lambda: model(rms_norm),
    "FUS002/fires-gelu": lambda: model(gelu),
    "FUS002/fires-rotary-embedding": lambda: model(rotary),
    "FUS002/silent-flash-attention": lambda: model(flash),
    "FUS002/silent-router": lambda: model(routing),
    "FUS002/silent-layer-norm": lambda: model(layer_norm),
    "FUS002/silent-mean-of-squares": lambda: model(mean_square),
    "FUS002/silent-compiled": lambda: model(compiled),
    "FUS002/silent-small-share": lambda: model(attention, rest_us=90_000),
    "FUS002/silent-once": lambda: model(lambda p: attention(p) if p.t.now < 5_097_944_722_000 else None),
    "FUS003/fires-three-in-a-row": lambda: model(twice_three),
    "FUS003/silent-two-in-a-row": lambda: model(chain(120, ("relu", "add"))),
    "FUS004/fires-long-chain": lambda: model(chain(150)),
    "FUS004/silent-products-between": lambda: model(apart),
    "FUS004/silent-tiny-kernels": lambda: model(chain(3, ("mul", "add") * 8), rest_us=400),
    "FUS004/silent-without-shapes": lambda: model(chain(150), shapes=False),
    "FUS005/fires-bias-and-batch-norm": lambda: model(convolved(bias_us=60)),
    "FUS005/fires-cheap-bias": lambda: model(convolved(bias_us=8)),
    "FUS005/silent-no-bias": lambda: model(convolved(bias=False)),
    "FUS005/silent-relu-between": lambda: model(convolved(between=True)),
    "FUS005/silent-evaluation": lambda: model(convolved(training=False)),
    "FUS006/fires-single-tensor": lambda: stepping(ONE, parameters=10),
    "FUS006/fires-without-stacks": lambda: stepping(ONE, parameters=10, stacks=False),
    "FUS006/fires-an-optimizer-of-ones-own": lambda: stepping(ONE, parameters=10, name="Lookback"),
    "FUS006/silent-foreach": lambda: stepping(ALL, parameters=1, frame="_multi_tensor_adam"),
    "FUS006/silent-foreach-in-many-groups": lambda: stepping(ALL, parameters=12, frame="_multi_tensor_adam"),
    "FUS006/silent-few-parameters": lambda: stepping(ONE, parameters=2),
    "FUS006/silent-small-share": lambda: stepping(ONE, parameters=10, compute_us=400_000),
}
