// Binds core/nn/lstm.hpp, the recurrence of a bidirectional LSTM: checks shapes and releases the GIL.
#include "nn/lstm.hpp"

#include <nanobind/ndarray.h>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// Returns the hidden size of u, (2, 4 * hidden, hidden).
std::int64_t hidden_of(const In<float, 3>& u) {
  require(u.shape(0) == 2 && u.shape(2) > 0 && u.shape(1) == 4 * u.shape(2),
          "u must be (2, 4 * hidden, hidden)");
  return static_cast<std::int64_t>(u.shape(2));
}

template <class Array>
void require_shape(const Array& array, std::size_t tokens, std::int64_t columns, const char* what) {
  require(array.shape(0) == tokens && static_cast<std::int64_t>(array.shape(1)) == columns, what);
}

LstmSteps steps_of(const In<std::int64_t>& sizes, std::size_t tokens) {
  return LstmSteps(sizes.data(), static_cast<std::int64_t>(sizes.shape(0)),
                   static_cast<std::int64_t>(tokens));
}

// Runs the forward pass. gates holds W x + b on entry and the activations on return; h, c and before are
// filled.
void forward(Out<float, 2> gates, In<float, 3> u, In<std::int64_t> sizes, Out<float, 2> h,
             Out<float, 2> c, Out<float, 2> before, int threads) {
  require(threads > 0, "threads must be positive");
  const std::int64_t hidden = hidden_of(u);
  const std::size_t tokens = gates.shape(0);
  require_shape(gates, tokens, 8 * hidden, "gates must be (tokens, 8 * hidden)");
  for (const auto* array : {&h, &c, &before})
    require_shape(*array, tokens, 2 * hidden, "h, c and before must be (tokens, 2 * hidden)");
  const LstmSteps steps = steps_of(sizes, tokens);
  const ReleasedGil release;
  lstm_forward(kernels().lstm, steps, hidden, u.data(),
               {gates.data(), h.data(), c.data(), before.data()}, threads);
}

// Fills d_gates, the gradient of the gates before their nonlinearities.
void backward(In<float, 2> d_h, In<float, 2> activations, In<float, 2> c, In<float, 3> u,
              In<std::int64_t> sizes, Out<float, 2> d_gates, int threads) {
  require(threads > 0, "threads must be positive");
  const std::int64_t hidden = hidden_of(u);
  const std::size_t tokens = d_gates.shape(0);
  require_shape(d_gates, tokens, 8 * hidden, "d_gates must be (tokens, 8 * hidden)");
  require_shape(activations, tokens, 8 * hidden, "activations must be (tokens, 8 * hidden)");
  require_shape(d_h, tokens, 2 * hidden, "d_h must be (tokens, 2 * hidden)");
  require_shape(c, tokens, 2 * hidden, "c must be (tokens, 2 * hidden)");
  const LstmSteps steps = steps_of(sizes, tokens);
  const ReleasedGil release;
  lstm_backward(kernels().lstm, steps, hidden, u.data(),
                {d_h.data(), activations.data(), c.data(), d_gates.data()}, threads);
}

}  // namespace
}  // namespace trellis

void bind_lstm(nb::module_& m) {
  m.def("lstm_forward", &trellis::forward, nb::arg("gates").noconvert(), nb::arg("u"), nb::arg("sizes"),
        nb::arg("h").noconvert(), nb::arg("c").noconvert(), nb::arg("before").noconvert(),
        nb::arg("threads"));
  m.def("lstm_backward", &trellis::backward, nb::arg("d_h"), nb::arg("activations"), nb::arg("c"),
        nb::arg("u"), nb::arg("sizes"), nb::arg("d_gates").noconvert(), nb::arg("threads"));
}
