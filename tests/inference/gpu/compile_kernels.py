"""Compile all kernels for an NVIDIA GPU of compute capability 9.0, without a GPU.

Triton's interpreter accepts Python that its compiler rejects. Run by test_compile.py in a
separate process, because Triton decides at import whether to interpret.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from trellis.inference.chain import kernels_shared as chain
from trellis.inference.ctc import kernels_frames, kernels_walks

INTEGERS = {
    "*i64": ("lengths", "tags", "lengths_out", "packed_tags", "path", "targets"),
    "*i32": ("status", "order", "links", "powers"),
    "*fp64": ("log_norm", "entropy_weight"),
    "*i1": ("mask",),
}
SIZES = {
    *("rows", "steps", "labels", "T", "B", "S", "blank", "stride_t", "stride_b", "weight_b"),
    *("e_row", "e_step", "a_row", "a_step", "a_from", "a_to", "m_row", "m_step"),
    *("t_row", "t_step", "gradient_t", "gradient_b"),
}


def type_of(name: str, number: str) -> str:
    """Return the type of an argument from its name."""
    if name in SIZES or name == "V":
        return "i32"
    if name in ("input_lengths", "target_lengths"):
        return "*i64"
    return next((kind for kind, names in INTEGERS.items() if name in names), f"*{number}")


def compile_kernel(kernel: Any, number: str, warps: int = 4, **constants: Any) -> None:
    """Compile a kernel to machine code; an error ends the program."""
    signature = {
        name: "constexpr" if name in constants else type_of(name, number)
        for name in kernel.arg_names
    }
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=places)
    target = GPUTarget("cuda", 90, 32)
    compiled = triton.compile(source, target=target, options={"num_warps": warps})
    print(kernel.__name__, number, len(compiled.asm["cubin"]), "bytes", flush=True)


def compile_chain(number: str, dtype: Any) -> None:
    """Compile the kernels of the chain, with transitions in registers and in memory."""
    for shared in (True, False):
        common = {"dtype": dtype, "block": 32 if shared else 16, "tile": 32, "held": shared}
        flags = {**common, "e_label": 1, "masked": True, "tagged": True, "shared": shared}
        compile_kernel(chain.forward_kernel, number, 1, **flags, counted=False)
        compile_kernel(chain.backward_kernel, number, 1, **flags)
        compile_kernel(chain.viterbi_kernel, number, 1, **common, e_label=1)
        compile_kernel(chain.sum_kernel, number, block=64, shared=shared)
    compile_kernel(chain.trace_kernel, number, 1, block=32)
    flags = {"masked": False, "counted": True, "tagged": True}
    compile_kernel(chain.validate_kernel, number, 1, **flags)


def compile_ctc(number: str) -> None:
    """Compile the kernels of CTC."""
    tile = {"V": 32, "ROWS": 32, "COLUMNS": 32, "LABELS": 32, "ALIGN": 16, "LOGITS": True}
    for lanes in (64, 0):
        scores = {**tile, "KEEP": True, "P": lanes, "BLOCK": 64}
        compile_kernel(kernels_frames.score_frames, number, **scores)
    for weighted in (False, True):
        flags = {"WEIGHTED": weighted, "SUMMED": not weighted, "MEAN": not weighted}
        compile_kernel(kernels_frames.write_gradient, number, **tile, **flags)
    compile_kernel(kernels_frames.validate_targets, number, P=64, BLOCK=64)
    for kernel in (kernels_walks.walk_in, kernels_walks.walk_out):
        compile_kernel(kernel, number, 2, P=64, KEEP=True, ENTROPY=True)


if __name__ == "__main__":
    compile_chain("fp32", tl.float32)
    compile_chain("fp64", tl.float64)
    compile_ctc("fp32")
    compile_ctc("fp64")
