// Binds nearest-neighbour search, product quantisation and files of word vectors.
#include "embedding/nearest.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <utility>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "formats/word_vector_rows.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Scores = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::int64_t size(std::size_t n) { return static_cast<std::int64_t>(n); }

using Bytes = nb::ndarray<const std::int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Coarse = std::tuple<Bytes, Vector, Vector>;

// Writes the bytes, steps and error bounds of all rows.
void coarse_rows(const Matrix& rows, const Vector& scale, int threads,
                 const nb::ndarray<std::int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>& code,
                 const nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>& step,
                 const nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>& error_bound) {
  const std::int64_t count = size(rows.shape(0)), dim = size(rows.shape(1)), stride = coarse_stride(dim);
  require(size(scale.shape(0)) == count, "scale must have one entry per row");
  require(size(code.shape(0)) == count && size(code.shape(1)) == stride &&
              size(step.shape(0)) == count && size(error_bound.shape(0)) == count,
          "code must be (rows, dim rounded up to 16); step and error_bound must be (rows)");
  require(threads > 0, "threads must be positive");
  constexpr std::int64_t kTask = 4096;  // rows
  const ReleasedGil release;
  parallel_for((count + kTask - 1) / kTask, threads, [&] {
    return [&](std::int64_t t) {
      kernels().nearest.coarsen({.rows = rows.data(), .scale = scale.data(), .dim = dim}, t * kTask,
                                std::min(count, (t + 1) * kTask), stride, code.data(), step.data(),
                                error_bound.data());
    };
  });
}

// Finds the k nearest rows of each query. scores and ids are (queries, k); coarse is the result of
// coarse_rows(), or None.
void find_nearest(const Matrix& rows, const Vector& scale, const Matrix& queries, int threads,
                  const Scores& scores, const Ids& ids, const std::optional<Coarse>& coarse) {
  require(scale.shape(0) == rows.shape(0), "scale must have one entry per row");
  CoarseRows bytes{};
  if (coarse) {
    const auto& [code, step, error_bound] = *coarse;
    require(code.shape(0) == rows.shape(0) && step.shape(0) == rows.shape(0) &&
                error_bound.shape(0) == rows.shape(0) &&
                size(code.shape(1)) == coarse_stride(size(rows.shape(1))),
            "coarse must have been computed from the rows");
    bytes = {.code = code.data(),
             .step = step.data(),
             .error_bound = error_bound.data(),
             .stride = size(code.shape(1))};
  }
  require(queries.shape(1) == rows.shape(1), "queries must have as many columns as the rows");
  require(scores.shape(0) == queries.shape(0) && ids.shape(0) == queries.shape(0) &&
              scores.shape(1) == ids.shape(1) && scores.shape(1) > 0,
          "scores and ids must be (queries, k)");
  require(threads > 0, "threads must be positive");
  const ReleasedGil release;
  nearest({.rows = rows.data(), .scale = scale.data(), .dim = size(rows.shape(1))},
          coarse ? &bytes : nullptr, size(rows.shape(0)),
          {.queries = queries.data(),
           .count = size(queries.shape(0)),
           .k = size(scores.shape(1)),
           .score = scores.data(),
           .id = ids.data()},
          threads);
}

// Writes codes[:, group] of points[:, begin : begin + width]; centroids are (width, 256).
void assign(const Matrix& points, std::int64_t begin, const Matrix& centroids, std::int64_t group,
            const Codes& codes, int threads) {
  const std::int64_t dim = size(points.shape(1)), width = size(centroids.shape(0));
  require(begin >= 0 && width <= dim && begin <= dim - width, "the columns are out of range");
  require(size(centroids.shape(1)) == kCentroids, "there must be 256 centroids");
  require(codes.shape(0) == points.shape(0) && group >= 0 && group < size(codes.shape(1)),
          "codes must be (points, groups)");
  require(threads > 0, "threads must be positive");
  constexpr std::int64_t kTask = 4096;  // points
  const std::int64_t count = size(points.shape(0)), groups = size(codes.shape(1));
  const ReleasedGil release;
  parallel_for((count + kTask - 1) / kTask, threads, [&] {
    return [&](std::int64_t t) {
      const std::int64_t first = t * kTask, number = std::min(kTask, count - first);
      kernels().nearest.assign(points.data() + first * dim + begin, number, dim, width, centroids.data(),
                               codes.data() + first * groups + group, groups);
    };
  });
}

// Reads rows from a block. Returns the begin and end of each word, the bytes consumed, and the problem
// with the next row ("" if there is none).
std::tuple<Numpy<std::int64_t>, std::int64_t, const char*> vector_rows(const nb::bytes& block, bool text,
                                                                       const Scores& out) {
  require(out.shape(1) > 0, "rows must have columns");
  const std::string_view bytes(block.c_str(), block.size());
  const std::int64_t capacity = size(out.shape(0)), dim = size(out.shape(1));
  VectorRows parsed;
  {
    const ReleasedGil release;
    parsed = (text ? text_rows : binary_rows)(bytes, dim, capacity, out.data());
  }
  const char* wrong = parsed.wrong == nullptr ? "" : parsed.wrong;
  return {to_array(std::move(parsed.words)), parsed.consumed, wrong};
}

}  // namespace
}  // namespace trellis

void bind_nearest(nb::module_& m) {
  m.def("nearest", &trellis::find_nearest, nb::arg("rows"), nb::arg("scale"), nb::arg("queries"),
        nb::arg("threads"), nb::arg("scores"), nb::arg("ids"), nb::arg("coarse").none() = nb::none());
  m.def("coarse_rows", &trellis::coarse_rows, nb::arg("rows"), nb::arg("scale"), nb::arg("threads"),
        nb::arg("code"), nb::arg("step"), nb::arg("error_bound"));
  m.def("assign", &trellis::assign, nb::arg("points"), nb::arg("begin"), nb::arg("centroids"),
        nb::arg("group"), nb::arg("codes"), nb::arg("threads"));
  m.def("vector_rows", &trellis::vector_rows, nb::arg("block"), nb::arg("text"), nb::arg("out"));
}
