"""Compile all kernels for an NVIDIA GPU of compute capability 9.0, without a GPU.

Triton's interpreter accepts Python that its compiler rejects. Run by test_compile.py in a
separate process, because Triton decides at import whether to interpret.
"""

from __future__ import annotations

from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from trellis.inference.chain import kernels_shared as chain
from trellis.inference.ctc import kernels_frames, kernels_walks

INTEGERS = {
    "*i64": ("lengths", "tags", "row_lengths", "path", "targets"),
    "*i32": ("status", "order", "links", "powers"),
    "*fp64": ("log_norm", "entropy_weight"),
    "*i1": ("mask",),
}
SIZES = {
    *("rows", "steps", "labels", "T", "B", "S", "blank", "stride_t", "stride_b", "weight_b"),
    *("e_row", "e_step", "m_row", "m_step", "t_row", "t_step", "gradient_t", "gradient_b"),
}


def type_of(name: str, number: str) -> str:
    """Return the type of an argument from its name."""
    if name in SIZES or name == "V":
        return "i32"
    if name in ("input_lengths", "target_lengths"):
        return "*i64"
    return next((kind for kind, names in INTEGERS.items() if name in names), f"*{number}")


def compile_kernel(kernel: Any, number: str, warps: int, constants: dict[str, Any]) -> None:
    """Compile a kernel to machine code; an error ends the program."""
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    signature = {
        name: "constexpr" if name in constants else type_of(name, number)
        for name in kernel.arg_names
    }
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=places)
    target = GPUTarget("cuda", 90, 32)
    compiled = triton.compile(source, target=target, options={"num_warps": warps})
    print(kernel.__name__, number, len(compiled.asm["cubin"]), "bytes", flush=True)


def compile_chain(number: str) -> None:
    """Compile the kernels of the chain, with transitions in registers and in memory."""
    for shared in (True, False):
        constants = {"block": 64, "tile": 16, "held": shared, "shared": shared}
        constants |= {"columns": 64, "masked": True, "tagged": True, "counted": False}
        for best in (False, True):
            compile_kernel(chain.forward_kernel, number, 1, {**constants, "best": best})
        for kernel in (chain.backward_kernel, chain.trace_kernel, chain.sum_kernel):
            compile_kernel(kernel, number, 1, constants)
    flags = {"masked": False, "counted": True, "tagged": True}
    compile_kernel(chain.validate_kernel, number, 1, flags)


def compile_ctc(number: str) -> None:
    """Compile the kernels of CTC."""
    tile = {"V": 32, "ROWS": 32, "COLUMNS": 32, "LABELS": 32, "ALIGN": 16, "LOGITS": True}
    tile |= {"KEEP": True, "ENTROPY": True, "P": 64, "BLOCK": 16}
    for now in (True, False):
        flags = {**tile, "WEIGHTED": not now, "SUMMED": now, "MEAN": now}
        compile_kernel(kernels_frames.score_frames, number, 4, flags)
        compile_kernel(kernels_frames.write_gradient, number, 4, flags)
    for kernel in (kernels_walks.walk_in, kernels_walks.walk_out):
        compile_kernel(kernel, number, 2, tile)


if __name__ == "__main__":
    for number in ("fp32", "fp64"):
        compile_chain(number)
        compile_ctc(number)
