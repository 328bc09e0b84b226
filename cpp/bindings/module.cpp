// trellis._core: the compiled part of the library. Private: trellis.native and the engines call it.
#include <nanobind/nanobind.h>

#include "bindings/base/casters.hpp"
#include "bindings/bindings.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace {

std::string public_name(const trellis::Kernels& kernels) {
  const std::string level = std::string(kernels.name).substr(4);  // without "isa_"
  return level == "generic" ? level : "x86-64-" + level;
}

}  // namespace

// nanobind's initialisation gets another name, so that PyInit__core can check the interpreter first.
#define PyInit__core trellis_init_core
NB_MODULE(_core, m) {
  m.doc() = "Native kernels of trellis.";
  nb::set_leak_warnings(false);  // nanobind would print warnings at exit
  m.def("isa", [] { return public_name(trellis::kernels()); });
  m.def("available_isas", [] {
    std::vector<std::string> names;
    for (const trellis::Kernels* k : trellis::available_kernels()) names.push_back(public_name(*k));
    return names;
  });
  m.def("use_isa", &trellis::use_kernels, nb::arg("name"));
  bind_errors(m);
  bind_arrays(m);
  bind_chain(m);
  bind_ctc(m);
  bind_ctc_decode(m);
  bind_embeddings(m);
  bind_embedding_training(m);
  bind_features(m);
  bind_graph(m);
  bind_grid(m);
  bind_layer(m);
  bind_vocabulary(m);
  bind_formats(m);
  bind_loglinear(m);
  bind_lstm(m);
  bind_ngram(m);
  bind_ngram_training(m);
  bind_ctc_words(m);
  bind_nearest(m);
  bind_adam(m);
  bind_char_windows(m);
  bind_optim(m);
  bind_tables(m);
  bind_tagger(m);
  bind_text_predictor(m);
  bind_words(m);
#ifdef TRELLIS_FAULTS
  bind_faults(m);
#endif
}
#undef PyInit__core

// nanobind keeps its types in the interpreter that imports the module. After a subinterpreter has
// imported it and ended, the main interpreter would use freed objects. So only the main interpreter may
// import this module.
extern "C" NB_EXPORT PyObject* PyInit__core(void) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "trellis._core cannot be imported in a subinterpreter: import trellis in the main "
                    "interpreter, or start a process");
    return nullptr;
  }
  return trellis_init_core();
}
