// Binds n-gram language models and their ARPA reader: converts text, and releases the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/base/arrays.hpp"
#include "bindings/base/casters.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "formats/arpa.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using FullScore = std::tuple<double, int, bool>;  // log10 p, length of the n-gram, unknown?

// Returns the score of each word and, if `eos`, of </s>. If `bos`, the text begins with <s>.
std::vector<FullScore> full_scores(const NgramModel& model, const std::vector<std::string>& words,
                                   bool bos, bool eos) {
  std::vector<FullScore> scores;
  NgramModel::State state = bos ? model.begin_state() : NgramModel::kNoContext;
  const auto add = [&](std::uint32_t word) {
    const NgramModel::Score scored = model.score(state, word);
    scores.emplace_back(scored.log10, scored.length, model.is_unknown(word));
    state = scored.next;
  };
  for (const std::string& word : words) add(model.find(word));
  if (eos) add(model.end());
  return scores;
}

// Returns all words except the unknown word.
std::vector<std::string> words(const NgramModel& model) {
  std::vector<std::string> all;
  for (std::uint32_t w = 0; w < model.vocabulary(); ++w) {
    if (!model.is_unknown(w)) all.emplace_back(model.word(w));
  }
  return all;
}

// Returns log10 p(word | state), the state after the word, and whether the model has the word.
std::tuple<double, NgramModel::State, bool> step(const NgramModel& model, NgramModel::State state,
                                                 const std::string& word) {
  require(model.is_state(state), "state does not belong to this language model");
  const std::uint32_t id = model.find(word);
  const NgramModel::Score scored = model.score(state, id);
  return {scored.log10, scored.next, !model.is_unknown(id)};
}

// Reads blocks of an ARPA file. After finish(), or after an error, it cannot be used again.
class Reader {
 public:
  void feed(const nb::bytes& block) {
    require(reader_ != nullptr, "the reader has finished");
    const ReleasedGil release;
    reader_->feed({block.c_str(), block.size()});
  }
  std::unique_ptr<NgramModel> finish() {
    require(reader_ != nullptr, "the reader has finished");
    const ReleasedGil release;
    std::unique_ptr<NgramModel> model = reader_->finish();
    reader_.reset();
    return model;
  }

 private:
  std::unique_ptr<ArpaReader> reader_ = std::make_unique<ArpaReader>();
};

}  // namespace
}  // namespace trellis

void bind_ngram(nb::module_& m) {
  using trellis::NgramModel;
  nb::class_<NgramModel>(m, "NgramModel")
      .def_prop_ro("order", &NgramModel::order)
      .def_prop_ro("counts", &NgramModel::counts)
      .def_prop_ro("longest_run", &NgramModel::longest_run)
      .def("__contains__", [](const NgramModel& model,
                              const std::string& word) { return !model.is_unknown(model.find(word)); })
      .def("words", &trellis::words)
      .def("start", [](const NgramModel& model,
                       bool bos) { return bos ? model.begin_state() : NgramModel::kNoContext; })
      .def("step", &trellis::step, nb::arg("state"), nb::arg("word"))
      .def("full_scores", &trellis::full_scores, nb::arg("words"), nb::arg("bos"), nb::arg("eos"));
  nb::class_<trellis::Reader>(m, "ArpaReader")
      .def(nb::init<>())
      .def("feed", &trellis::Reader::feed, nb::arg("block"))
      .def("finish", &trellis::Reader::finish);
}
