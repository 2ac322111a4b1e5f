"""How kernels are compiled; the LLVM code of functions that only they call is linked into them, not assembled alone.

Numba optimises and assembles every function alone, and once more within each function that calls it. What Python never
calls needs only the latter: the kernel of stars compiles in four fifths of the time, that of trees in little more than
half, and runs as fast.
"""

from __future__ import annotations

from typing import Any

from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import require_global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

UNUSED = frozenset({NativeLowering, InlineClosureLikes, InlineOverloads, NopythonRewrites})
"""Numba's passes that kernels do without: another one lowers them, and they have no closures, inlined overloads or
expressions of whole arrays. Without the last three the kernel of stars compiles in nine tenths of the time, to the same
machine code."""

NO_CODE = 0
"""The address of a function that Python cannot call."""

WRAPPER = "wrapper"
"""What numba calls the LLVM module of the code that takes arguments from Python."""


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba is not typed
    """The LLVM code of a kernel and of the functions it calls, and that which takes its arguments from Python."""

    def add_ir_module(self, ir_module: Any) -> None:
        """Add LLVM code: that which takes arguments from Python, and runs once a call, is not to be optimised.

        For forty arrays it is as long as a kernel: a tenth of a second of compiling, or one microsecond a call.
        """
        if ir_module.name == WRAPPER:
            for function in ir_module.functions:
                if not function.is_declaration:
                    function.attributes.update(("noinline", "optnone"))
        super().add_ir_module(ir_module)


class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code of one function and of those it calls, to be optimised as a part of a kernel."""

    def finalize(self) -> None:
        """Link the code of the functions that this one calls; nothing is optimised or assembled."""
        require_global_compiler_lock()
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(library, "_reload_init"):  # what a kernel from the cache has to initialise; not in numba 0.61
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):  # type: ignore[misc]
    """Lower a kernel to LLVM code, and compile that."""

    _name = "kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower the function as numba does, into a `KernelLibrary`."""
        state.library = KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()  # so that it can be kept on disk
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class LinkedLowering(NativeLowering):  # type: ignore[misc]
    """Lower a function to LLVM code without machine code of its own."""

    _name = "linked_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower the function as numba does, into a `LinkedLibrary`, for other functions to call."""
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        changed = bool(super().run_pass(state))
        lowered = state["cr"]
        description = lowered.fndesc
        stand_in = make_function(
            description.lookup_module(), description.qualname, "", NO_CODE, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(stand_in, description, [state.library])
        state["cr"] = lowered._replace(cfunc=stand_in)
        return changed


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's passes that kernels need, with `KernelLowering` at their end."""

    lowering: type[NativeLowering] = KernelLowering

    def define_pipelines(self) -> list[Any]:
        """Return the passes, in order."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(self.lowering, NativeLowering)
        passes.passes = [one for one in passes.passes if one[0] not in UNUSED]
        passes.finalize()
        return [passes]


class LinkedCompiler(KernelCompiler):
    """Numba's passes that kernels need, with `LinkedLowering` at their end."""

    lowering = LinkedLowering
