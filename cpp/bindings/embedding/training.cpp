// Binds training of word embeddings from a corpus and the model's tables: checks shapes, dtypes and
// ranges, and releases the GIL.
#include "embedding/training.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "embedding/alias_table.hpp"
#include "embedding/huffman.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
// A table that is only read: joblib gives its processes arrays that cannot be written.
using ConstTable = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::int64_t size(const Vector<T>& v) {
  return static_cast<std::int64_t>(v.shape(0));
}
template <class T>
std::int64_t size(const std::vector<T>& v) {
  return static_cast<std::int64_t>(v.size());
}

// Returns a private copy of an optional array.
template <class T>
std::optional<std::vector<T>> copy_of_optional(const std::optional<Vector<T>>& v) {
  if (!v) return std::nullopt;
  return copy_of(*v);
}

// Returns an alias table, (words, 2), flat: thresholds and aliases.
Numpy<std::uint32_t> alias_cells(const Vector<double>& weights) {
  require(size(weights) < std::numeric_limits<std::int32_t>::max(), "too many weights");
  const HeldGil held;
  const std::vector<AliasCell> cells = alias_table(weights.data(), size(weights));
  std::vector<std::uint32_t> flat;
  for (const AliasCell& cell : cells) {
    flat.push_back(cell.threshold);
    flat.push_back(static_cast<std::uint32_t>(cell.alias));
  }
  return to_array(std::move(flat));
}

// Returns the members of HuffmanTree: begin, node, right, child.
std::tuple<Numpy<std::int64_t>, Numpy<std::int32_t>, Numpy<std::uint8_t>, Numpy<std::int32_t>> huffman(
    const Vector<std::int64_t>& counts) {
  require(size(counts) < (1 << 30), "too many words");
  const HeldGil held;
  HuffmanTree tree = huffman_tree(counts.data(), size(counts));
  return {to_array(std::move(tree.begin)), to_array(std::move(tree.node)),
          to_array(std::move(tree.right)), to_array(std::move(tree.child))};
}

// Returns a table that is not initialised. Its rows are padded to cache lines; it uses huge pages if
// they are available.
nb::ndarray<nb::numpy, float> make_table(std::int64_t rows, int dim) {
  require(dim > 0 && dim <= (1 << 20), "dim must be positive");
  require(rows >= 0 && rows <= (std::int64_t{1} << 40) / dim, "too many rows");
  const auto stride = static_cast<std::size_t>(padded_row(dim));
  const std::size_t count = static_cast<std::size_t>(rows) * stride;
  struct Memory {
    explicit Memory(std::size_t n) : p(TableAllocator<float>().allocate(n)), count(n) {}
    ~Memory() { TableAllocator<float>().deallocate(p, count); }
    Memory(const Memory&) = delete;
    float* p;
    std::size_t count;
  };
  auto memory = std::make_unique<Memory>(count);
  const nb::capsule owner(memory.get(), [](void* m) noexcept { delete static_cast<Memory*>(m); });
  float* p = memory.release()->p;
  return nb::ndarray<nb::numpy, float>(p, {static_cast<std::size_t>(rows), stride}, owner);
}

template <class T>
void check_table(const T& table) {
  require(table.shape(1) > 0 && table.shape(1) % kRowPadding == 0 && table.shape(1) <= (1 << 20),
          "rows of a table must be padded to cache lines");
}

// Fills rows [begin, end) uniformly in +-range, and the padding with zeros.
void fill_table(const Table& table, std::int64_t begin, std::int64_t end, int dim, float range,
                std::uint64_t seed, int threads) {
  check_table(table);
  require(0 <= begin && begin <= end && end <= static_cast<std::int64_t>(table.shape(0)),
          "begin and end are out of range");
  const int stride = static_cast<int>(table.shape(1));
  require(dim > 0 && dim <= stride && threads > 0, "dim and threads must be positive");
  const ReleasedGil release;
  constexpr std::int64_t kTask = 4096;  // rows
  parallel_for((end - begin + kTask - 1) / kTask, threads, [&] {
    return [&](std::int64_t i) {
      const std::int64_t from = begin + i * kTask;
      kernels().embedding.fill(table.data(), from, std::min(end, from + kTask), dim, stride, range,
                               seed);
    };
  });
}

// Returns whether all entries are in [low, high).
template <class T>
bool within(const std::vector<T>& v, std::int64_t low, std::int64_t high) {
  return std::all_of(v.begin(), v.end(), [=](T x) {
    return static_cast<std::int64_t>(x) >= low && static_cast<std::int64_t>(x) < high;
  });
}

// Returns whether begin is a valid index array: begin[0] = 0 <= begin[1] <= ... <= begin[n] = values.
bool is_index(const std::vector<std::int64_t>& begin, std::int64_t values) {
  return !begin.empty() && begin.front() == 0 && begin.back() == values &&
         std::is_sorted(begin.begin(), begin.end());
}

// out[i] = mean of the rows of word i; out is (words, dim).
void row_means(const ConstTable& table, const Vector<std::int64_t>& begins,
               const Vector<std::int32_t>& rows,
               const nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>& out, int threads) {
  check_table(table);
  const std::vector<std::int64_t> begin = copy_of(begins);
  const std::vector<std::int32_t> row = copy_of(rows);
  require(is_index(begin, size(row)) && within(row, 0, static_cast<std::int64_t>(table.shape(0))),
          "begin and row do not fit the table");
  require(static_cast<std::int64_t>(out.shape(0)) == size(begin) - 1 && out.shape(1) <= table.shape(1) &&
              threads > 0,
          "out must have one row per word");
  const ReleasedGil release;
  const std::size_t stride = table.shape(1), dim = out.shape(1);
  parallel_for(size(begin) - 1, threads, [&] {
    auto mean = std::make_shared<std::vector<float>>(stride);
    return [&, mean](std::int64_t i) {
      const std::int64_t from = begin.data()[i];
      kernels().embedding.mean(table.data(), static_cast<int>(stride), row.data() + from,
                               begin.data()[i + 1] - from, mean->data());
      std::copy(mean->data(), mean->data() + dim, out.data() + static_cast<std::size_t>(i) * dim);
    };
  });
}

// The tables of a model and all that training needs, validated once.
class Trainer {
 public:
  Trainer(const Table& input, const Table& output, std::int64_t vocabulary,
          std::optional<Vector<std::int64_t>> rows_begin, std::optional<Vector<std::int32_t>> row,
          std::optional<Vector<std::uint32_t>> keep, std::optional<Vector<std::uint32_t>> noise,
          std::optional<Vector<std::int64_t>> path_begin, std::optional<Vector<std::int32_t>> path_node,
          std::optional<Vector<std::uint8_t>> path_right, int loss, bool cbow, bool shared, int window,
          int negatives, bool shrink, bool sum, std::int64_t hot_nodes, std::int64_t hot_for)
      : input_(input),
        output_(output),
        vocabulary_(vocabulary),
        rows_begin_(copy_of_optional(rows_begin)),
        row_(copy_of_optional(row)),
        keep_(copy_of_optional(keep)),
        noise_(copy_of_optional(noise)),
        path_begin_(copy_of_optional(path_begin)),
        path_node_(copy_of_optional(path_node)),
        path_right_(copy_of_optional(path_right)) {
    check_table(input);
    require(output.shape(1) == input.shape(1), "both tables must have the same width");
    require(0 <= loss && loss <= 3, "unknown loss");
    require(1 <= window && window <= 10'000, "window must be 1 to 10,000");
    require(0 <= negatives && negatives <= 10'000, "negatives must be 0 to 10,000");
    require(hot_nodes >= 0 && hot_for > 0, "hot_nodes must be 0 or more, hot_for positive");
    const auto words = static_cast<std::int64_t>(output.shape(0));
    require(words > 0 && words < std::numeric_limits<std::int32_t>::max(), "output must have rows");
    check_rows();
    const auto embedding_loss = static_cast<EmbeddingLoss>(loss);
    const std::int64_t longest = embedding_loss == EmbeddingLoss::hierarchical ? check_paths(words) : 0;
    if (words == 1) negatives = 0;  // with a single word, there are no negatives
    if (embedding_loss == EmbeddingLoss::negative) check_noise(words);
    model_ = {.input = input_.data(),
              .output = output_.data(),
              .stride = static_cast<int>(input.shape(1)),
              .words = words,
              .rows_begin = pointer(rows_begin_),
              .row = pointer(row_),
              .keep = pointer(keep_),
              .noise = reinterpret_cast<const AliasCell*>(pointer(noise_)),
              .path_begin = pointer(path_begin_),
              .path_node = pointer(path_node_),
              .path_right = pointer(path_right_),
              .loss = embedding_loss,
              .cbow = cbow,
              .sum = sum,
              .shared = shared,
              .window = window,
              .negatives = negatives,
              .shrink = shrink,
              .hot_for = hot_for,
              .ring_mask = ring_size(window) - 1};
    std::vector<std::int32_t> hot = choose_hot_nodes(std::min(hot_nodes, words));
    training_.emplace(model_, longest, std::move(hot));
  }

  // Trains on the sentences of chunks [first, last); returns the sum of the losses, and its number of
  // terms.
  std::pair<double, double> sentences(Corpus& corpus, std::int64_t first, std::int64_t last,
                                      double first_rate, double last_rate, double seen, double total,
                                      std::uint64_t seed, std::int64_t loss_every, int threads) {
    check_run(corpus, first, last, loss_every, threads);
    require(static_cast<std::int64_t>(corpus.largest_number()) < vocabulary_,
            "the corpus has word numbers that the model does not have");
    require(model_.words == vocabulary_ || model_.loss == EmbeddingLoss::hierarchical,
            "output must have one row per word");
    const ReleasedGil release;
    const Report report = training_->sentences(
        corpus,
        {.first = first,
         .last = last,
         .schedule = {.first_rate = first_rate, .last_rate = last_rate, .seen = seen, .total = total},
         .seed = seed,
         .loss_every = loss_every,
         .threads = threads});
    return {report.loss, report.terms};
  }

  // Trains on labelled texts. begin, row, label and hash describe the types of the corpus (see
  // TypeRows).
  std::pair<double, double> texts(Corpus& corpus, const Vector<std::int64_t>& begins,
                                  const Vector<std::int32_t>& input_rows,
                                  const Vector<std::int32_t>& labels, const Vector<std::uint32_t>& hash,
                                  int word_ngrams, std::int64_t buckets, std::int64_t first_bucket,
                                  std::int64_t first, std::int64_t last, double first_rate,
                                  double last_rate, double seen, double total, std::uint64_t seed,
                                  std::int64_t loss_every, int threads,
                                  const std::optional<Vector<std::int32_t>>& bucket_rows) {
    check_run(corpus, first, last, loss_every, threads);
    const std::vector<std::int64_t> begin = copy_of(begins);  // copies, because they index the tables
    const std::vector<std::int32_t> row = copy_of(input_rows), label = copy_of(labels);
    const std::optional<std::vector<std::int32_t>> bucket_row = copy_of_optional(bucket_rows);
    const auto rows = static_cast<std::int64_t>(input_.shape(0));
    const auto types = static_cast<std::int64_t>(corpus.types().size());
    require(static_cast<std::int64_t>(corpus.largest_number()) < types && size(begin) == types + 1 &&
                is_index(begin, size(row)) && within(row, 0, rows) && size(label) == types &&
                within(label, -2, model_.words) && size(hash) == types,
            "the types of the corpus do not fit");
    const bool placed = bucket_row ? size(*bucket_row) == buckets && within(*bucket_row, -1, rows)
                                   : first_bucket >= 0 && first_bucket + buckets <= rows;
    require(word_ngrams <= 1 || (buckets > 0 && placed), "the buckets of word n-grams do not fit");
    const TypeRows type_rows{.begin = begin.data(),
                             .row = row.data(),
                             .label = label.data(),
                             .hash = hash.data(),
                             .word_ngrams = word_ngrams,
                             .buckets = buckets,
                             .first_bucket = first_bucket,
                             .bucket_row = pointer(bucket_row)};
    const ReleasedGil release;
    const Report report = training_->texts(
        corpus, type_rows,
        {.first = first,
         .last = last,
         .schedule = {.first_rate = first_rate, .last_rate = last_rate, .seen = seen, .total = total},
         .seed = seed,
         .loss_every = loss_every,
         .threads = threads});
    return {report.loss, report.terms};
  }

 private:
  // Returns the pointer of an optional array, or null.
  template <class T>
  static const T* pointer(const std::optional<std::vector<T>>& v) {
    return v ? v->data() : nullptr;
  }

  // Chooses the nodes next to the root as hot nodes; they are the last rows. In the paths, each hot node
  // is replaced by its index among the hot nodes (see HotRows).
  std::vector<std::int32_t> choose_hot_nodes(std::int64_t count) {
    if (model_.loss != EmbeddingLoss::hierarchical || count == 0) return {};
    std::vector<std::int32_t> hot;
    const auto last = static_cast<std::int32_t>(model_.words - 1);
    for (std::int32_t i = 0; i < count; ++i) hot.push_back(last - i);
    encoded_node_.assign(path_node_->data(), path_node_->data() + size(*path_node_));
    for (std::int32_t& node : encoded_node_) {
      if (last - node < count) node = -1 - (last - node);
    }
    model_.path_node = encoded_node_.data();
    return hot;
  }

  void check_rows() const {
    const auto rows = static_cast<std::int64_t>(input_.shape(0));
    if (rows_begin_) {
      require(row_ && is_index(*rows_begin_, size(*row_)) && size(*rows_begin_) == vocabulary_ + 1 &&
                  within(*row_, 0, rows),
              "rows_begin and row do not fit");
    } else {
      require(vocabulary_ <= rows, "input must have one row per word");
    }
    if (keep_) require(size(*keep_) == vocabulary_, "keep must have one entry per word");
  }

  // Checks the paths and returns the length of the longest one.
  std::int64_t check_paths(std::int64_t words) const {
    require(path_begin_ && path_node_ && path_right_, "paths are missing");
    require(size(*path_begin_) == words + 1 && is_index(*path_begin_, size(*path_node_)) &&
                size(*path_right_) == size(*path_node_) && within(*path_node_, 0, words),
            "paths do not fit");
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < words; ++i)
      longest = std::max(longest, (*path_begin_)[i + 1] - (*path_begin_)[i]);
    return longest;
  }

  void check_noise(std::int64_t words) const {
    require(noise_ && size(*noise_) == 2 * words, "noise must have one cell per word");
    for (std::int64_t i = 0; i < words; ++i)
      require((*noise_)[2 * i + 1] < static_cast<std::uint64_t>(words), "noise: a word is out of range");
  }

  // Checks the arguments that sentences() and texts() have in common.
  static void check_run(const Corpus& corpus, std::int64_t first, std::int64_t last,
                        std::int64_t loss_every, int threads) {
    require(0 <= first && first <= last && last <= static_cast<std::int64_t>(corpus.chunks().size()),
            "first and last are out of range");
    require(loss_every > 0 && threads > 0, "loss_every and threads must be positive");
  }

  Table input_, output_;
  // The following arrays are private copies, because they index the tables.
  std::int64_t vocabulary_;
  std::optional<std::vector<std::int64_t>> rows_begin_;
  std::optional<std::vector<std::int32_t>> row_;
  std::optional<std::vector<std::uint32_t>> keep_, noise_;
  std::optional<std::vector<std::int64_t>> path_begin_;
  std::optional<std::vector<std::int32_t>> path_node_;
  std::optional<std::vector<std::uint8_t>> path_right_;
  std::vector<std::int32_t> encoded_node_;  // path_node_ with hot nodes replaced
  EmbeddingModel model_;
  std::optional<EmbeddingTraining> training_;
};

// Performs one gradient step on hidden vectors and rows, as in training; only for tests. Returns the
// loss before the step.
double embedding_step(const Table& hidden, const Table& rows, const Vector<float>& label,
                      const Vector<float>& weight, std::int64_t softmax_target, float rate) {
  check_table(hidden);
  require(rows.shape(1) == hidden.shape(1) && hidden.shape(0) <= 1000,
          "hidden and rows must have the same width");
  const auto count = static_cast<std::int64_t>(hidden.shape(0)),
             targets = static_cast<std::int64_t>(rows.shape(0));
  require(size(label) == targets && size(weight) == targets && softmax_target < targets,
          "label and weight must have one entry per row");
  const int stride = static_cast<int>(hidden.shape(1));
  EmbeddingScratch scratch(stride, 4, count, targets, 1);
  EmbeddingWorker& k = scratch.worker;
  k.rate = rate;
  for (std::int64_t c = 0; c < count; ++c) k.hidden_row[c] = hidden.data() + c * stride;
  for (std::int64_t t = 0; t < targets; ++t) k.target_row[t] = rows.data() + t * stride;
  return kernels().embedding.step(k, k.hidden_row, static_cast<int>(count), k.target_row, targets,
                                  softmax_target, label.data(), weight.data(), stride);
}

}  // namespace
}  // namespace trellis

void bind_embedding_training(nb::module_& m) {
  using namespace trellis;
  m.def("alias_cells", &alias_cells, nb::arg("weights"));
  m.def("huffman", &huffman, nb::arg("counts"));
  m.def("embedding_table", &make_table, nb::arg("rows"), nb::arg("dim"));
  m.def("fill_table", &fill_table, nb::arg("table"), nb::arg("begin"), nb::arg("end"), nb::arg("dim"),
        nb::arg("range"), nb::arg("seed"), nb::arg("threads"));
  m.def("row_means", &row_means, nb::arg("table"), nb::arg("begin"), nb::arg("row"), nb::arg("out"),
        nb::arg("threads"));
  m.def("embedding_step", &embedding_step, nb::arg("hidden"), nb::arg("rows"), nb::arg("label"),
        nb::arg("weight"), nb::arg("softmax_target"), nb::arg("rate"));
  using B = std::optional<Vector<std::int64_t>>;
  using I = std::optional<Vector<std::int32_t>>;
  using U = std::optional<Vector<std::uint32_t>>;
  using C = std::optional<Vector<std::uint8_t>>;
  nb::class_<Trainer>(m, "EmbeddingTrainer")
      .def(nb::init<const Table&, const Table&, std::int64_t, B, I, U, U, B, I, C, int, bool, bool, int,
                    int, bool, bool, std::int64_t, std::int64_t>(),
           nb::arg("input"), nb::arg("output"), nb::arg("vocabulary"), nb::arg("rows_begin").none(),
           nb::arg("row").none(), nb::arg("keep").none(), nb::arg("noise").none(),
           nb::arg("path_begin").none(), nb::arg("path_node").none(), nb::arg("path_right").none(),
           nb::arg("loss"), nb::arg("cbow"), nb::arg("shared"), nb::arg("window"), nb::arg("negatives"),
           nb::arg("shrink"), nb::arg("sum") = false, nb::arg("hot_nodes") = 0, nb::arg("hot_for") = 1)
      .def("sentences", &Trainer::sentences, nb::arg("corpus"), nb::arg("first"), nb::arg("last"),
           nb::arg("first_rate"), nb::arg("last_rate"), nb::arg("seen"), nb::arg("total"),
           nb::arg("seed"), nb::arg("loss_every"), nb::arg("threads"))
      .def("texts", &Trainer::texts, nb::arg("corpus"), nb::arg("begin"), nb::arg("row"),
           nb::arg("label"), nb::arg("hash"), nb::arg("word_ngrams"), nb::arg("buckets"),
           nb::arg("first_bucket"), nb::arg("first"), nb::arg("last"), nb::arg("first_rate"),
           nb::arg("last_rate"), nb::arg("seen"), nb::arg("total"), nb::arg("seed"),
           nb::arg("loss_every"), nb::arg("threads"), nb::arg("bucket_row").none() = nb::none());
}
