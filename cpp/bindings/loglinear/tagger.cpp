// Tags one sequence at a time, from ready features to labels, with as little overhead as possible.
#include <nanobind/ndarray.h>

#include <memory>
#include <vector>

#include "bindings/base/casters.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "bindings/features/vocabulary.hpp"
#include "bindings/loglinear/scorer.hpp"
#include "chain/batch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// The names and weights of a model, and the scores of the last sequence. All calls hold the GIL: it
// protects the last sequence, and most calls are so short that releasing the GIL would not pay.
class Tagger {
 public:
  Tagger(nb::object vocabulary, nb::object scorer, nb::tuple labels)
      : vocabulary_(std::move(vocabulary)),
        scorer_(std::move(scorer)),
        labels_(std::move(labels)),
        names_(nb::cast<const Vocabulary&>(vocabulary_).names()),
        scores_of_(nb::cast<const Scorer&>(scorer_)),
        transition_(scores_of_.bigrams()) {
    require(static_cast<int>(nb::len(labels_)) == scores_of_.labels(),
            "labels must have one entry per label");
    shared_ = std::make_shared<const SharedScores>(batch(), false);
  }

  void set(nb::handle sequence) {
    const HeldGil held;
    const BusyMark mark(busy_);
    ItemSequence* items = nullptr;
    if (nb::try_cast(sequence, items, false) && items != nullptr) return score(items->reading());
    reading_.clear();
    length_ = 0;
    ItemSequence::read(sequence, reading_);
    score(reading_);
  }

  std::int64_t length() const { return length_; }

  // Returns the labels with the highest score; among equal scores, the lowest numbers.
  nb::list best() {
    nb::list tags;
    if (length_ == 0) return tags;
    const HeldGil held;
    const BusyMark mark(busy_);
    path_.resize(length_);
    double score = 0.0;
    Outcome outcome;
    const Batch<double> batch = this->batch();
    ChainBatch<double>(batch, kernels().chain<double>(), 1, shared_)
        .viterbi(path_.data(), &score, &outcome);
    require(outcome.status == Status::ok, "the scores of the sequence are not finite");
    for (const std::int64_t y : path_) tags.append(labels_[static_cast<std::size_t>(y)]);
    return tags;
  }

  // Returns a copy of the scores of the sequence, (length, labels).
  Numpy<double> scores() const {
    const auto labels = static_cast<std::size_t>(scores_of_.labels());
    auto vector =
        std::make_unique<std::vector<double>>(scores_.begin(), scores_.begin() + length_ * labels);
    const nb::capsule owner(vector.get(),
                            [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    return Numpy<double>(vector.release()->data(), {static_cast<std::size_t>(length_), labels}, owner);
  }

 private:
  // Looks up the features of a sequence and computes its scores.
  void score(const Reading& r) {
    name_ids_.resize(r.end.size());
    names_.find_all(r.text.data(), r.end.data(), 0, static_cast<std::int64_t>(r.end.size()),
                    name_ids_.data());
    begin_.assign(1, 0);
    id_.clear();
    value_.clear();
    std::size_t k = 0;
    for (const std::int64_t stop : r.row) {
      for (; k < static_cast<std::size_t>(stop); ++k) {
        if (name_ids_[k] == kNone) continue;
        id_.push_back(static_cast<std::int32_t>(name_ids_[k]));
        value_.push_back(r.value[k]);
      }
      begin_.push_back(static_cast<std::int64_t>(id_.size()));
    }
    length_ = static_cast<std::int64_t>(r.row.size());
    scores_.resize(length_ * scores_of_.labels() + kPadding);
    scores_of_.scores_here(
        {.rows = length_, .begin = begin_.data(), .id = id_.data(), .value = value_.data()},
        scores_.data());
    unary_ = scores_.data();
  }

  // Returns a batch that has only the current sequence.
  Batch<double> batch() {
    return {.count = 1,
            .labels = scores_of_.labels(),
            .unary = &unary_,
            .starts = &zero_,
            .lengths = &length_,
            .transition = transition_.data(),
            .transitions = nullptr,
            .start = nullptr,
            .end = nullptr};
  }

  nb::object vocabulary_, scorer_;  // own the objects that names_ and scores_of_ refer to
  nb::tuple labels_;
  const StringTable& names_;
  const Scorer& scores_of_;
  std::vector<double> transition_;
  std::shared_ptr<const SharedScores> shared_;
  bool busy_ = false;  // true during a call: while it polls, Python code can run
  Reading reading_;
  std::vector<std::uint32_t> name_ids_;     // (names of the sequence), kNone if unknown
  std::vector<std::int64_t> begin_, path_;  // (length + 1), (length)
  std::vector<std::int32_t> id_;
  std::vector<double> value_, scores_;
  const double* unary_ = nullptr;
  std::int64_t zero_ = 0, length_ = 0;  // start and length of the sequence, for batch()
};

}  // namespace
}  // namespace trellis

void bind_tagger(nb::module_& m) {
  using namespace trellis;
  nb::class_<Tagger>(m, "Tagger")
      .def(nb::init<nb::object, nb::object, nb::tuple>(), nb::arg("vocabulary"), nb::arg("scorer"),
           nb::arg("labels"))
      .def("set", &Tagger::set, nb::arg("sequence"))
      .def("best", &Tagger::best)
      .def("scores", &Tagger::scores)
      .def("__len__", &Tagger::length);
}
