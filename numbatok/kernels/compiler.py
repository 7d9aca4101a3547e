"""Numba's compiler without what kernels do without: little more than half of the time, for code that is as fast.

Three things are other than in the pipeline that Numba has for everybody. Of 12 seconds of compiling for a first
``encode`` each saves more than one:

- Numba asks up to eight templates, that of NumPy's ufuncs among them, for the type of every ``+``; see
  :class:`_RememberingContext`.
- It optimises each helper alone and makes machine code of it, though what runs is what kernels have linked, and that is
  optimised again; see :class:`_HelperLibrary`.
- It looks for closures, array expressions and constant branches in every function; see ``_NEEDLESS``.
"""

from typing import Any

from numba._dynfunc import make_function
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering

#: Names of passes that find nothing to do in kernels; without one that is needed a kernel does not compile.
_NEEDLESS = {"InlineClosureLikes", "RewriteSemanticConstants", "DeadBranchPrune", "GenericRewrites", "NopythonRewrites"}

#: Of calls, by the function, or its type, and the types of the arguments.
_signatures: dict[tuple[Any, tuple[Any, ...]], Any] = {}


class _RememberingContext:
    """Numba's typing context, which types no call of an operator, an intrinsic or a type twice."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        """The signature of a call with arguments of these types."""
        resolve = self._context.resolve_function_type
        if isinstance(function, types.Dispatcher):
            # A helper is compiled for int64 alone, not for each constant that it is called with, too.
            return resolve(function, [types.unliteral(each) for each in args], kws)
        if kws:
            return resolve(function, args, kws)
        key = function, tuple(args)
        if key not in _signatures:
            _signatures[key] = resolve(function, args, kws)
        return _signatures[key]


class KernelCompiler(CompilerBase):
    """The compiler of entry points."""

    def define_pipelines(self) -> list[PassManager]:
        """Numba's own pipeline, less what is needless."""
        self.state.typingctx = _RememberingContext(self.state.typingctx)
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [step for step in pipeline.passes if step[0].__name__ not in _NEEDLESS]
        pipeline.finalize()
        return [pipeline]


class HelperCompiler(KernelCompiler):
    """The compiler of functions that only kernels call; it ends with LLVM's code."""

    def define_pipelines(self) -> list[PassManager]:
        """The pipeline of kernels with another last step."""
        (pipeline,) = super().define_pipelines()
        pipeline.passes = [
            (_HelperLowering if step is NativeLowering else step, about) for step, about in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


class _HelperLibrary(JITCodeLibrary):
    """LLVM's code of a helper, for kernels to link: it is there that it is optimised and becomes machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(NativeLowering):
    """From Numba's code of a helper to LLVM's."""

    _name = "numbatok_helper_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower, and make the helper known to its callers, which Numba does where it makes machine code."""
        state.library = _HelperLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        about = lowered.fndesc
        # What stands for the overload; at address 0, as of any function without a wrapper for CPython.
        stand_in = make_function(about.lookup_module(), about.qualname, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(stand_in, about, [state.library])
        state["cr"] = lowered._replace(cfunc=stand_in)
        return True
