// Binds core/ctc/word_decoder.hpp: converts text, checks shapes and dtypes, and releases the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/thread_pool.hpp"
#include "bindings/base/arrays.hpp"
#include "bindings/base/casters.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "ctc/word_decoder.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// A language model written in Python: an object with begin(), score(state, word), end(state) and
// kept(state), whose states are integers; beginning(word) is optional.
class PythonWords : public WordModel {
 public:
  // Unless `open` is true, only words of the decoder's vocabulary are known.
  PythonWords(const nb::object& factory, const nb::object& start, bool open) : open_(open) {
    const nb::gil_scoped_acquire acquire;
    session_ = factory(start);
    scores_beginnings_ = nb::hasattr(session_, "beginning");
  }
  ~PythonWords() override {
    const nb::gil_scoped_acquire acquire;
    session_.reset();
  }
  PythonWords(const PythonWords&) = delete;
  PythonWords& operator=(const PythonWords&) = delete;
  State begin() override {
    const nb::gil_scoped_acquire acquire;
    return nb::cast<State>(session_.attr("begin")());
  }
  Score score(State state, std::uint32_t id, std::string_view word) override {
    const nb::gil_scoped_acquire acquire;
    const auto [log10, next, known] = nb::cast<std::tuple<double, State, bool>>(
        session_.attr("score")(state, nb::str(word.data(), word.size())));
    return {log10, next, known && (open_ || id != kNone)};
  }
  double end(State state) override {
    const nb::gil_scoped_acquire acquire;
    return nb::cast<double>(session_.attr("end")(state));
  }
  bool scores_beginnings() const override { return scores_beginnings_; }
  double beginning(std::string_view word) override {
    const nb::gil_scoped_acquire acquire;
    return nb::cast<double>(session_.attr("beginning")(nb::str(word.data(), word.size())));
  }
  nb::object kept(State state) const { return session_.attr("kept")(state); }

 private:
  nb::object session_;
  const bool open_;
  bool scores_beginnings_ = false;
};

template <class T>
using Frames = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Transcript = std::tuple<std::vector<std::string>, std::vector<std::int64_t>,
                              std::vector<std::int64_t>, double, double, nb::object>;

// Returns the state after a text as an object that Python can pass to session().
nb::object state_of(const WordModel* model, WordModel::State state) {
  if (model == nullptr) return nb::none();
  const auto* foreign = dynamic_cast<const PythonWords*>(model);
  return foreign != nullptr ? foreign->kept(state) : nb::cast(state);
}

// Returns transcripts as Python tuples: words, starts, ends, acoustic score, bonus, state.
std::vector<Transcript> to_python(std::vector<CtcTimedTranscript>& transcripts, const WordModel* model) {
  std::vector<Transcript> out;
  for (CtcTimedTranscript& f : transcripts) {
    out.emplace_back(std::move(f.transcript.words), std::move(f.starts), std::move(f.ends),
                     f.transcript.acoustic, f.transcript.bonus, state_of(model, f.transcript.state));
  }
  return out;
}

std::vector<std::string_view> views(const std::vector<std::string>& strings) {
  return {strings.begin(), strings.end()};
}

class WordsBinding {
 public:
  using Piece = std::tuple<std::string, bool, bool>;
  using Options = std::tuple<double, double, double, double, double, double, std::int64_t, std::int64_t,
                             std::int64_t>;

  // `vocabulary` lists the known words; None means the words of the model. If `bounded`, texts begin
  // with <s> and end with </s>.
  WordsBinding(const std::vector<Piece>& pieces, const Options& options, nb::object model,
               nb::object foreign, const std::optional<std::vector<std::string>>& vocabulary,
               const std::vector<std::string>& hot_words, bool bounded)
      : model_(model.is_none() ? nullptr : nb::cast<const NgramModel*>(model)),
        model_owner_(std::move(model)),
        foreign_(std::move(foreign)),
        bounded_(bounded),
        listed_(vocabulary) {
    const auto [alpha, beta, unknown, hot, least, prune, width, blank, space] = options;
    const auto labels = static_cast<std::int64_t>(pieces.size());
    require(width > 0, "width must be positive");
    require(0 <= blank && blank < labels, "blank must be a label");
    require(-1 <= space && space < labels, "space must be a label, or -1");
    std::vector<CtcPiece> core_pieces;
    for (const auto& [text, starts, ends] : pieces) {
      core_pieces.push_back({.text = text, .starts = starts, .ends = ends, .letters = 0});
    }
    words_ = std::make_unique<CtcWords>(CtcWordOptions{.alpha = alpha,
                                                       .beta = beta,
                                                       .unknown = unknown,
                                                       .hot_weight = hot,
                                                       .least = least,
                                                       .prune = prune,
                                                       .width = width,
                                                       .blank = blank,
                                                       .space = space},
                                        std::move(core_pieces), model_ != nullptr || !foreign_.is_none(),
                                        known(vocabulary), views(hot_words), listed_);
  }

  void allow(const std::vector<std::string>& words,
             const std::optional<std::vector<std::vector<std::int32_t>>>& spellings) {
    if (!spellings) return words_->allow(words);
    require(spellings->size() == words.size(), "spellings must have one entry per word");
    words_->allow(words, *spellings);
  }

  const CtcWords& core() const { return *words_; }

  // Returns a language model for one text that begins in state `start` (None: at the beginning of a
  // text).
  std::unique_ptr<WordModel> session(const nb::object& start) const {
    if (model_ == nullptr) {
      if (foreign_.is_none()) return nullptr;
      return std::make_unique<PythonWords>(foreign_, start, numbers_.empty());
    }
    return std::make_unique<NgramWords>(*model_, first(start), bounded_, listed_ ? &numbers_ : nullptr);
  }

  template <class T>
  CtcInput<T> input(const T* data, std::int64_t frames, std::int64_t vocabulary) const {
    require(vocabulary == words_->labels(), "frames must have one column per label");
    return {.scores = data,
            .frame_stride = vocabulary,
            .length = frames,
            .vocabulary = vocabulary,
            .blank = words_->options().blank};
  }

  // Returns the k best transcripts of each sequence; an empty list if no hypothesis survives a frame.
  template <class T>
  std::vector<std::vector<Transcript>> decode(const std::vector<Frames<T>>& batch, bool logits,
                                              std::int64_t k, bool only_best, bool timed, int threads,
                                              const nb::object& start) const {
    require(k > 0 && threads > 0, "k and threads must be positive");
    std::vector<CtcInput<T>> rows;
    for (const Frames<T>& x : batch) {
      rows.push_back(
          input(x.data(), static_cast<std::int64_t>(x.shape(0)), static_cast<std::int64_t>(x.shape(1))));
    }
    std::vector<std::vector<CtcTimedTranscript>> transcripts(rows.size());
    std::vector<std::unique_ptr<WordModel>> models;
    for (std::size_t b = 0; b < rows.size(); ++b) models.push_back(session(start));
    {
      const ReleasedGil release;
      parallel_for(static_cast<std::int64_t>(rows.size()), threads, [&] {
        return [&](std::int64_t b) {
          const Lease lease(*this);
          lease.search().begin(models[b].get(), only_best);
          CtcWordDecoder<T> decoder(*words_, lease.search(), kernels().ctc, logits);
          if (decoder.feed(rows[b])) transcripts[b] = decoder.finish(k, timed ? &rows[b] : nullptr);
        };
      });
    }
    std::vector<std::vector<Transcript>> out;
    for (std::size_t b = 0; b < rows.size(); ++b)
      out.push_back(to_python(transcripts[b], models[b].get()));
    return out;
  }

 private:
  // Returns the words of the vocabulary, and writes the model's number of each word to numbers_.
  std::vector<std::string_view> known(const std::optional<std::vector<std::string>>& vocabulary) {
    std::vector<std::string_view> all;
    for (std::uint32_t w = 0; !vocabulary && model_ != nullptr && w < model_->vocabulary(); ++w) {
      all.push_back(model_->word(w));
    }
    if (!vocabulary) return all;
    for (const std::string& word : *vocabulary) {
      const std::uint32_t id = model_ == nullptr ? 0 : model_->find(word);
      if (model_ != nullptr && model_->is_unknown(id)) continue;
      all.push_back(word);
      numbers_.push_back(id);
    }
    return all;
  }

  // Returns the n-gram state of a Python object; for None, the state at the beginning of a text.
  NgramModel::State first(const nb::object& start) const {
    if (start.is_none()) return bounded_ ? model_->begin_state() : NgramModel::kNoContext;
    NgramModel::State state = 0;
    require(nb::try_cast(start, state) && model_->is_state(state),
            "state does not belong to this language model");
    return state;
  }

  // Borrows a search object. Searches are reused, because each one needs megabytes of memory.
  class Lease {
   public:
    explicit Lease(const WordsBinding& words) : words_(words) {
      const std::lock_guard lock(words.mutex_);
      if (!words.idle_.empty()) {
        search_ = std::move(words.idle_.back());
        words.idle_.pop_back();
        return;
      }
      words.idle_.reserve(words.searches_ + 1);  // so that the destructor does not allocate
      search_ = std::make_unique<CtcWordSearch>(*words.words_, kernels().ctc);
      ++words.searches_;
    }
    ~Lease() {
      const std::lock_guard lock(words_.mutex_);
      words_.idle_.push_back(std::move(search_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    CtcWordSearch& search() const { return *search_; }

   private:
    const WordsBinding& words_;
    std::unique_ptr<CtcWordSearch> search_;
  };

  // Models are not in a std::shared_ptr, because nanobind allocates its control block in a noexcept
  // function.
  const NgramModel* model_;  // the n-gram model, or null
  nb::object model_owner_;   // keeps model_ alive
  nb::object foreign_;       // creates a Python language model, or None
  const bool bounded_, listed_;
  std::vector<std::uint32_t> numbers_;  // (vocabulary): the model's number of each listed word
  std::unique_ptr<CtcWords> words_;
  mutable std::mutex mutex_;          // guards idle_ and searches_
  mutable std::size_t searches_ = 0;  // idle or in use
  mutable std::vector<std::unique_ptr<CtcWordSearch>> idle_;
};

// Decodes frames as they arrive. The GIL is held, so that two threads cannot feed one stream at a time.
template <class T>
class Stream {
 public:
  Stream(nb::object words, bool logits)
      : words_(nb::cast<const WordsBinding*>(words)),
        words_owner_(std::move(words)),
        model_(words_->session(nb::none())),
        search_(words_->core(), kernels().ctc),
        decoder_(words_->core(), search_, kernels().ctc, logits) {
    search_.begin(model_.get(), false);
  }

  // Processes frames. Returns the number of the frame that no hypothesis survives, or -1.
  std::int64_t feed(const Frames<T>& x) {
    const HeldGil held;
    const BusyMark mark(busy_);
    const CtcInput<T> input = words_->input(x.data(), static_cast<std::int64_t>(x.shape(0)),
                                            static_cast<std::int64_t>(x.shape(1)));
    frames_.insert(frames_.end(), x.data(), x.data() + x.size());
    return decoder_.feed(input) ? -1 : decoder_.frames();
  }
  // Returns the best text so far, and the part of it that all hypotheses share.
  std::tuple<std::string, std::string> partial() {
    const BusyMark mark(busy_);
    return {decoder_.search().best(), decoder_.search().stable()};
  }
  std::vector<Transcript> finish(std::int64_t k) {
    require(k > 0, "k must be positive");
    const HeldGil held;
    const BusyMark mark(busy_);
    const CtcInput<T> all = words_->input(frames_.data(), decoder_.frames(), words_->core().labels());
    auto transcripts = decoder_.finish(k, &all);
    return to_python(transcripts, model_.get());
  }

 private:
  const WordsBinding* words_;
  nb::object words_owner_;  // keeps words_ alive
  std::unique_ptr<WordModel> model_;
  CtcWordSearch search_;
  CtcWordDecoder<T> decoder_;
  // True during a call: a language model written in Python could call the stream again from inside the
  // search.
  bool busy_ = false;
  std::vector<T> frames_;  // all frames so far, (frames, labels): finish() aligns the words to them
};

template <class T>
void bind_stream(nb::module_& m, const char* name) {
  nb::class_<Stream<T>>(m, name)
      .def(nb::init<nb::object, bool>(), nb::arg("words"), nb::arg("logits"))
      .def("feed", &Stream<T>::feed, nb::arg("frames"))
      .def("partial", &Stream<T>::partial)
      .def("finish", &Stream<T>::finish, nb::arg("k"));
}

}  // namespace
}  // namespace trellis

void bind_ctc_words(nb::module_& m) {
  using trellis::WordsBinding;
  nb::class_<WordsBinding>(m, "CtcWords")
      .def(nb::init<const std::vector<WordsBinding::Piece>&, const WordsBinding::Options&, nb::object,
                    nb::object, const std::optional<std::vector<std::string>>&,
                    const std::vector<std::string>&, bool>(),
           nb::arg("pieces"), nb::arg("options"), nb::arg("model").none(), nb::arg("foreign").none(),
           nb::arg("vocabulary").none(), nb::arg("hot_words"), nb::arg("bounded"))
      .def("allow", &WordsBinding::allow, nb::arg("words"), nb::arg("spellings").none())
      .def("decode_float32", &WordsBinding::decode<float>, nb::arg("batch"), nb::arg("logits"),
           nb::arg("k"), nb::arg("only_best"), nb::arg("timed"), nb::arg("threads"),
           nb::arg("start").none())
      .def("decode_float64", &WordsBinding::decode<double>, nb::arg("batch"), nb::arg("logits"),
           nb::arg("k"), nb::arg("only_best"), nb::arg("timed"), nb::arg("threads"),
           nb::arg("start").none());
  trellis::bind_stream<float>(m, "CtcStreamFloat32");
  trellis::bind_stream<double>(m, "CtcStreamFloat64");
}
