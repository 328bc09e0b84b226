// Binds the vector operations of the optimisers (core/optim/): checks shapes, and releases the GIL.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <initializer_list>
#include <tuple>
#include <utility>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "optim/lbfgs.hpp"
#include "optim/owlqn.hpp"
#include "optim/vectors.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using In = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using View = nb::ndarray<nb::numpy, const double, nb::ndim<1>>;
using Memory = TRELLIS_ISA::LbfgsMemory;

std::int64_t size(const In& a) { return static_cast<std::int64_t>(a.shape(0)); }
std::int64_t size(const Out& a) { return static_cast<std::int64_t>(a.shape(0)); }

// Checks that all vectors have n entries, and that there is at least one thread.
void same_size(std::int64_t n, std::initializer_list<std::int64_t> others, int threads) {
  for (const std::int64_t other : others) require(other == n, "vectors must have the same size");
  require(threads > 0, "threads must be positive");
}

// Returns a · b, with the same bits for any number of threads.
double dot(const In& a, const In& b, int threads) {
  same_size(size(a), {size(b)}, threads);
  const ReleasedGil release;
  return TRELLIS_ISA::dot(a.data(), b.data(), size(a), threads);
}

// out = w + t d
void step(const In& w, const In& d, double t, const Out& out, int threads) {
  same_size(size(w), {size(d), size(out)}, threads);
  const ReleasedGil release;
  TRELLIS_ISA::step(w.data(), d.data(), t, size(w), out.data(), threads);
}

// Fills `out` with the pseudo-gradient and returns Σ l1_i |w_i|. All arrays are (weights).
double pseudo_gradient(const In& w, const In& gradient, const In& l1, const Out& out, int threads) {
  same_size(size(w), {size(gradient), size(l1), size(out)}, threads);
  const ReleasedGil release;
  return TRELLIS_ISA::pseudo_gradient(w.data(), gradient.data(), l1.data(), size(w), out.data(),
                                      threads);
}

// Projects the direction d in place (see core/optim/owlqn.hpp); returns d · pseudo.
double project_direction(const In& pseudo, const In& l1, const Out& d, int threads) {
  same_size(size(pseudo), {size(l1), size(d)}, threads);
  const ReleasedGil release;
  return TRELLIS_ISA::project_direction(pseudo.data(), l1.data(), size(d), d.data(), threads);
}

// Fills `out` with the next weights; returns their L1 penalty and the slope (out - w) · pseudo.
std::pair<double, double> orthant_step(const In& w, const In& d, double t, const In& pseudo,
                                       const In& l1, const Out& out, int threads) {
  same_size(size(w), {size(d), size(pseudo), size(l1), size(out)}, threads);
  const ReleasedGil release;
  const auto result = TRELLIS_ISA::orthant_step(w.data(), d.data(), t, pseudo.data(), l1.data(), size(w),
                                                out.data(), threads);
  return {result.penalty, result.slope};
}

// Creates a memory for n weights and up to `capacity` pairs.
void make_memory(Memory* self, std::int64_t n, int capacity) {
  require(n > 0 && capacity > 0, "size and capacity must be positive");
  new (self) Memory(n, capacity);
}

// Adds the pair (w - w_before, g - g_before) of the last step. Returns |w|², |q|², and whether the pair
// was stored: it is dropped without positive curvature.
std::tuple<double, double, bool> push(Memory& self, const In& w, const In& w_before, const In& g,
                                      const In& g_before, const In& q, int threads) {
  same_size(self.size(), {size(w), size(w_before), size(g), size(g_before), size(q)}, threads);
  const ReleasedGil release;
  const auto norms = self.push(w.data(), w_before.data(), g.data(), g_before.data(), q.data(), threads);
  return {norms.weights, norms.slope, norms.kept};
}

// Adds a pair from a checkpoint.
void append(Memory& self, const In& s, const In& y, int threads) {
  same_size(self.size(), {size(s), size(y)}, threads);
  const ReleasedGil release;
  self.append(s.data(), y.data(), threads);
}

// Prepares direction() for another q.
void project(Memory& self, const In& q, int threads) {
  same_size(self.size(), {size(q)}, threads);
  const ReleasedGil release;
  self.project(q.data(), threads);
}

// Fills d = -H q and returns d · q.
double direction(const Memory& self, const In& q, const Out& d, int threads) {
  same_size(self.size(), {size(q), size(d)}, threads);
  const ReleasedGil release;
  return self.direction(q.data(), d.data(), threads);
}

// Returns views of the pairs (s, y), oldest first. They keep the memory alive; later pushes change their
// values.
nb::list pairs(nb::handle_t<Memory> self) {
  const auto& memory = nb::cast<const Memory&>(self);
  const auto n = static_cast<std::size_t>(memory.size());
  nb::list list;
  for (int i = 0; i < memory.count(); ++i) {
    list.append(nb::make_tuple(View(memory.s(i), {n}, self), View(memory.y(i), {n}, self)));
  }
  return list;
}

}  // namespace
}  // namespace trellis

void bind_optim(nb::module_& m) {
  m.def("dot", &trellis::dot);
  m.def("step", &trellis::step);
  m.def("pseudo_gradient", &trellis::pseudo_gradient);
  m.def("project_direction", &trellis::project_direction);
  m.def("orthant_step", &trellis::orthant_step);
  nb::class_<trellis::Memory>(m, "LbfgsMemory")
      .def("__init__", &trellis::make_memory)
      .def("push", &trellis::push)
      .def("append", &trellis::append)
      .def("project", &trellis::project)
      .def("direction", &trellis::direction)
      .def("clear", &trellis::Memory::clear)
      .def("__len__", &trellis::Memory::count)
      .def("pairs", &trellis::pairs);
}
