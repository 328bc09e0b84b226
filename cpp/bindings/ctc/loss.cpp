// Binds core/ctc/loss.hpp: checks shapes and dtypes, and releases the GIL.
//
// Python allocates all results. Sizes are checked here again, so that no call can access memory outside
// an array, whatever Python passes.
#include "ctc/loss.hpp"

#include <nanobind/ndarray.h>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

template <class T>
using Frames = nb::ndarray<T, nb::ndim<3>, nb::device::cpu>;  // (T, B, V), the last axis contiguous

// Checks that the last axis is contiguous, as the kernels require.
template <class T>
void require_contiguous(const Frames<T>& array) {
  require(array.size() == 0 || array.shape(2) == 1 || array.stride(2) == 1,
          "the last axis must be contiguous");
}

template <class A>
std::int64_t size(const A& array, int axis) {
  return static_cast<std::int64_t>(array.shape(static_cast<std::size_t>(axis)));
}

// The arrays of one batch, kept alive while the object exists.
template <class T>
class CtcBinding {
 public:
  CtcBinding(Frames<const T> input, In<std::int64_t, 2> targets, In<std::int64_t, 1> input_lengths,
             In<std::int64_t, 1> target_lengths, std::int64_t blank, bool logits, int threads)
      : input_(input),
        // These are copies, because the caller could change the originals after they were checked.
        targets_(targets.data(), targets.data() + targets.size()),
        input_lengths_(input_lengths.data(), input_lengths.data() + input_lengths.size()),
        target_lengths_(target_lengths.data(), target_lengths.data() + target_lengths.size()),
        threads_(threads) {
    require_contiguous(input);
    require(threads > 0, "threads must be positive");
    const std::int64_t count = size(input, 1);
    for (const std::int64_t rows : {size(targets, 0), size(input_lengths, 0), size(target_lengths, 0)}) {
      require(rows == count, "targets and lengths must have as many rows as input");
    }
    batch_ = {.frames = size(input, 0),
              .count = count,
              .vocabulary = size(input, 2),
              .input = input.data(),
              .frame_stride = input.stride(0),
              .row_stride = input.stride(1),
              .targets = targets_.data(),
              .most_labels = size(targets, 1),
              .input_lengths = input_lengths_.data(),
              .target_lengths = target_lengths_.data(),
              .blank = blank,
              .logits = logits};
    check_ctc(batch_);
  }

  // Fills loss, (B), log_norm, (T, B), and alpha, (B, T, 2S + 1), for targets of up to S labels;
  // backward() needs all of them. `alpha` holds scores, not probabilities: it is `kept` of
  // Ctc::forward().
  void forward(Out<T, 1> loss, Out<T, 2> log_norm, Out<T, 3> alpha) const {
    check(size(loss, 0), size(log_norm, 0), size(log_norm, 1), alpha);
    const ReleasedGil release;
    core().forward(loss.data(), log_norm.data(), alpha.data());
  }

  void backward(In<T, 2> log_norm, In<T, 3> alpha, In<T, 1> loss, In<T, 1> weight,
                Frames<T> gradient) const {
    check(size(loss, 0), size(log_norm, 0), size(log_norm, 1), alpha);
    require(size(weight, 0) == batch_.count, "weight must have one entry per row");
    require_contiguous(gradient);
    for (int axis = 0; axis < 3; ++axis) {
      require(size(gradient, axis) == size(input_, axis), "gradient must have the shape of input");
    }
    const ReleasedGil release;
    core().backward(log_norm.data(), alpha.data(), loss.data(), weight.data(), gradient.data(),
                    gradient.stride(0), gradient.stride(1));
  }

 private:
  template <class A>
  void check(std::int64_t losses, std::int64_t frames, std::int64_t rows, const A& alpha) const {
    const std::int64_t states = 2 * batch_.most_labels + 1;
    require(losses == batch_.count, "loss must have one entry per row");
    require(!batch_.logits || (frames == batch_.frames && rows == batch_.count),
            "log_norm must be (frames, rows)");
    require(
        size(alpha, 0) == batch_.count && size(alpha, 1) == batch_.frames && size(alpha, 2) == states,
        "alpha must be (rows, frames, 2 * labels + 1)");
  }

  Ctc<T> core() const { return Ctc<T>(batch_, kernels().ctc, threads_); }

  Frames<const T> input_;
  std::vector<std::int64_t> targets_, input_lengths_, target_lengths_;  // (B, S), (B), (B)
  int threads_;
  CtcBatch<T> batch_{};
};

template <class T>
void bind(nb::module_& m, const char* name) {
  nb::class_<CtcBinding<T>>(m, name)
      .def(nb::init<Frames<const T>, In<std::int64_t, 2>, In<std::int64_t, 1>, In<std::int64_t, 1>,
                    std::int64_t, bool, int>(),
           nb::arg("input"), nb::arg("targets"), nb::arg("input_lengths"), nb::arg("target_lengths"),
           nb::arg("blank"), nb::arg("logits"), nb::arg("threads"))
      .def("forward", &CtcBinding<T>::forward, nb::arg("loss"), nb::arg("log_norm"), nb::arg("alpha"))
      .def("backward", &CtcBinding<T>::backward, nb::arg("log_norm"), nb::arg("alpha"), nb::arg("loss"),
           nb::arg("weight"), nb::arg("gradient"));
}

}  // namespace
}  // namespace trellis

void bind_ctc(nb::module_& m) {
  trellis::bind<float>(m, "CtcFloat32");
  trellis::bind<double>(m, "CtcFloat64");
}
