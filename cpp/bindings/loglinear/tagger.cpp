// One sequence at a time, from ready features to labels, in as few steps as there can be.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/loglinear/scorer.hpp"
#include "bindings/loglinear/vocabulary.hpp"
#include "chain/batch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// The names and weights of a model, and the scores of the sequence that was set last. The GIL is held
// throughout: it guards that sequence, and most take no longer than it takes to let go of it.
class Tagger {
 public:
  Tagger(nb::object vocabulary, nb::object scorer, nb::tuple labels)
      : vocabulary_(std::move(vocabulary)),
        scorer_(std::move(scorer)),
        labels_(std::move(labels)),
        names_(nb::cast<const Vocabulary&>(vocabulary_).names()),
        scores_of_(nb::cast<const Scorer&>(scorer_)),
        transition_(scores_of_.bigrams()) {
    require(static_cast<int>(nb::len(labels_)) == scores_of_.labels(), "one name for each label");
    shared_ = std::make_shared<const SharedScores>(batch(), false);
  }

  void set(nb::handle sequence) {
    ItemSequence* items = nullptr;
    if (nb::try_cast(sequence, items, false) && items != nullptr) return score(items->reading());
    reading_.clear();
    length_ = 0;
    ItemSequence::read(sequence, reading_);
    score(reading_);
  }

  std::int64_t length() const { return length_; }

  // The labels with the highest score; of several, those with the lowest numbers.
  nb::list best() {
    nb::list found;
    if (length_ == 0) return found;
    path_.resize(length_);
    double score = 0.0;
    Outcome outcome;
    const Batch<double> batch = this->batch();
    ChainBatch<double>(batch, kernels().chain<double>(), 1, shared_)
        .viterbi(path_.data(), &score, &outcome);
    require(outcome.status == Status::ok, "the scores of the sequence are not finite");
    for (const std::int64_t y : path_) found.append(labels_[static_cast<std::size_t>(y)]);
    return found;
  }

  // (length, labels), a copy.
  Numpy<double> scores() const {
    const auto labels = static_cast<std::size_t>(scores_of_.labels());
    auto* copy = new std::vector<double>(scores_.begin(), scores_.begin() + length_ * labels);
    const nb::capsule owner(copy, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    return Numpy<double>(copy->data(), {static_cast<std::size_t>(length_), labels}, owner);
  }

 private:
  void score(const Reading& r) {
    found_.resize(r.end.size());
    names_.find_all(r.text.data(), r.end.data(), 0, static_cast<std::int64_t>(r.end.size()),
                    found_.data());
    begin_.assign(1, 0);
    id_.clear();
    value_.clear();
    std::size_t k = 0;
    for (const std::int64_t stop : r.row) {
      for (; k < static_cast<std::size_t>(stop); ++k) {
        if (found_[k] == kNone) continue;
        id_.push_back(static_cast<std::int32_t>(found_[k]));
        value_.push_back(r.value[k]);
      }
      begin_.push_back(static_cast<std::int64_t>(id_.size()));
    }
    length_ = static_cast<std::int64_t>(r.row.size());
    scores_.resize(length_ * scores_of_.labels() + kPadding);
    scores_of_.scores_here({length_, begin_.data(), id_.data(), value_.data()}, scores_.data());
    unary_ = scores_.data();
  }

  Batch<double> batch() {
    return {1,      scores_of_.labels(), &unary_, &zero_, &length_, transition_.data(), nullptr, nullptr,
            nullptr};
  }

  nb::object vocabulary_, scorer_;  // keep what the references below are to
  nb::tuple labels_;
  const StringTable& names_;
  const Scorer& scores_of_;
  std::vector<double> transition_;
  std::shared_ptr<const SharedScores> shared_;
  Reading reading_;
  std::vector<std::uint32_t> found_;
  std::vector<std::int64_t> begin_, path_;
  std::vector<std::int32_t> id_;
  std::vector<double> value_, scores_;
  const double* unary_ = nullptr;
  std::int64_t zero_ = 0, length_ = 0;
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
