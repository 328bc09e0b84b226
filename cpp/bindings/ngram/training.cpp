// Binds the training of n-gram models: takes blocks of text, returns blocks of an ARPA file, and
// releases the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/base/arrays.hpp"
#include "bindings/base/casters.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "ctc/ngram.hpp"
#include "ngram/trainer.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// For one length: the number of all n-grams and of those that are kept, the three discounts, and whether
// these are the fallback.
using LevelSummary = std::tuple<std::int64_t, std::int64_t, std::array<double, 3>, bool>;

// Allows the steps of NgramTrainer only in their valid order. After an error, no step is allowed.
class Training {
 public:
  explicit Training(const NgramOptions& options)
      : trainer_(std::make_unique<NgramTrainer>(options)), order_(options.order) {}

  void feed(const nb::bytes& block) {
    const std::string_view text(block.c_str(), block.size());
    step(kCounting, kCounting, [&] { trainer_->feed(text); });
  }
  void end_text() {
    step(kCounting, kCounting, [&] { trainer_->end_text(); });
  }
  void estimate(const std::vector<std::uint64_t>& thresholds,
                const std::optional<std::array<double, 3>>& fallback) {
    require(thresholds.size() == static_cast<std::size_t>(order_), "one threshold for each length");
    step(kCounting, kWriting, [&] { trainer_->estimate(thresholds, fallback); });
  }
  nb::bytes next_block() {
    std::string block;
    step(kWriting, kWriting, [&] { block = trainer_->next_block(); });
    return nb::bytes(block.data(), block.size());
  }

  // Releases the memory and the temporary files. No step is allowed after close().
  void close() {
    const BusyMark mark(busy_);
    stage_ = kFailed;
    trainer_.reset();
  }

  std::int64_t tokens() const { return trainer().text().tokens(); }
  std::int64_t lines() const { return trainer().text().lines(); }
  std::int64_t types() const { return trainer().text().words().size() - 3; }  // without the symbols
  std::int64_t written() const { return trainer().written(); }

  std::vector<LevelSummary> levels() const {
    std::vector<LevelSummary> levels;
    for (std::size_t i = 0; i < trainer().discounts().size(); ++i) {
      const CountStatistics& statistics = trainer().statistics()[i];
      const auto& [amount, fallback] = trainer().discounts()[i];
      levels.emplace_back(statistics.ngrams, statistics.kept,
                          std::array<double, 3>{amount[1], amount[2], amount[3]}, fallback);
    }
    return levels;
  }

 private:
  enum Stage { kCounting, kWriting, kFailed };

  template <class Body>
  void step(Stage now, Stage after, const Body& body) {
    const BusyMark mark(busy_);
    require(stage_ == now, "this step of the training is not the next one");
    stage_ = kFailed;
    const ReleasedGil release;
    body();
    stage_ = after;
  }

  // Returns the trainer, for its counts. It is an error to read them during a step, which may change
  // them in another thread.
  const NgramTrainer& trainer() const {
    require(trainer_ != nullptr && !busy_, "the training is in use or closed");
    return *trainer_;
  }

  std::unique_ptr<NgramTrainer> trainer_;
  const int order_;
  Stage stage_ = kCounting;
  bool busy_ = false;
};

void make_training(Training* self, int order, bool characters, bool skip_symbols, int decimals,
                   std::int64_t memory, int threads, const std::string& folder) {
  require(order >= 1 && order <= NgramModel::kMaxOrder, "order must be 1 to 32");
  require(decimals >= 1 && decimals <= 15, "decimals must be 1 to 15");
  require(memory >= 0, "memory must not be negative");
  require(threads >= 1, "threads must be at least 1");
  new (self) Training({.order = order,
                       .characters = characters,
                       .skip_symbols = skip_symbols,
                       .decimals = decimals,
                       .memory = static_cast<std::size_t>(memory),
                       .threads = threads,
                       .folder = folder});
}

}  // namespace
}  // namespace trellis

void bind_ngram_training(nb::module_& m) {
  using trellis::Training;
  nb::class_<Training>(m, "NgramTraining")
      .def("__init__", &trellis::make_training, nb::kw_only(), nb::arg("order"), nb::arg("characters"),
           nb::arg("skip_symbols"), nb::arg("decimals"), nb::arg("memory"), nb::arg("threads"),
           nb::arg("folder"))
      .def("feed", &Training::feed, nb::arg("block"))
      .def("end_text", &Training::end_text)
      .def("estimate", &Training::estimate, nb::arg("thresholds"), nb::arg("fallback").none())
      .def("next_block", &Training::next_block)
      .def("levels", &Training::levels)
      .def("close", &Training::close)
      .def_prop_ro("tokens", &Training::tokens)
      .def_prop_ro("types", &Training::types)
      .def_prop_ro("lines", &Training::lines)
      .def_prop_ro("written", &Training::written);
}
