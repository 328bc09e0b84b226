// Prefix beam search: the most likely labellings, each summed over the paths that the beam contains.
//
// A hypothesis is a labelling y with two masses, alpha_-(y) of paths that end in a blank and alpha_*(y)
// of paths that end in its last label. A frame changes them to
//     alpha_-'(y)   = p(-) (alpha_-(y) + alpha_*(y))
//     alpha_*'(y)   = p(last) alpha_*(y)              the path repeats its last label
//     alpha_*'(y c) = p(c) (alpha_-(y) + alpha_*(y))  a label c is appended; without alpha_* if c = last
// and the `width` hypotheses with the largest sum of both masses survive.
//
// Labellings are nodes of a tree, and each labelling has one node, so paths to the same labelling are
// merged. The hypothesis y c looks up its parent y in the beam, not the other way round, to receive the
// mass of this extension. Nodes are created only for hypotheses that survive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "ctc/align.hpp"

namespace trellis {

// Estimates the operations of a search per frame, for PollEvery. Extending and sorting the beam takes
// more time than reading the scores.
inline constexpr std::int64_t kCtcFrameCost = 1 << 15;

struct CtcHypothesis {
  std::vector<std::int64_t> labels, frames;
  double log_prob;
};

// The labels tried at a frame, best first, and the score of every label, -inf if it is not tried.
class CtcTried {
 public:
  struct Label {
    double score;
    std::int32_t id;
  };

  // Tries the best label and those with log-probability (scores - norm) of at least `least`. Returns
  // false if all labels are impossible at this frame.
  template <class T>
  bool choose(const T* scores, std::int64_t vocabulary, std::int64_t blank, double least,
              const CtcBest<T>& best, double norm = 0.0) {
    if (score_.empty()) score_.assign(static_cast<std::size_t>(vocabulary), -kInfinity);
    for (const Label& label : labels_) score_[label.id] = -kInfinity;
    score_[blank] = -kInfinity;
    labels_.clear();
    double top;
    const std::int64_t best_label = best.argmax(scores, vocabulary, &top);
    if (top == -kInfinity) return false;
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      const double score = static_cast<double>(scores[v]) - norm;
      if (score < least && v != best_label) continue;
      // NaN must not reach the sorting functions. Only another thread that changes the frames during
      // the search can cause it.
      if (!(score > -kInfinity && score < kInfinity)) continue;
      score_[v] = score;
      if (v != blank) labels_.push_back({score, static_cast<std::int32_t>(v)});
    }
    std::sort(labels_.begin(), labels_.end(), [](const Label& a, const Label& b) {
      return a.score != b.score ? a.score > b.score : a.id < b.id;
    });
    return true;
  }

  const std::vector<Label>& labels() const { return labels_; }  // all labels except the blank
  double score(std::int64_t label) const { return score_[label]; }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Label> labels_;
  std::vector<double> score_;  // (vocabulary)
};

// The hypotheses of the beam and the logarithms of their masses; one entry per hypothesis in each
// vector.
struct CtcBeam {
  std::vector<std::uint32_t> node;
  std::vector<double> blank, star, total;

  std::size_t size() const { return node.size(); }
  void clear() {
    node.clear();
    blank.clear();
    star.clear();
    total.clear();
  }
  void push(std::uint32_t n, double b, double s, double sum) {
    node.push_back(n);
    blank.push_back(b);
    star.push_back(s);
    total.push_back(sum);
  }
  // Processes a frame where only the blank is tried, as in most frames. The ranking does not change.
  void add_blank(double p_blank) {
    for (std::size_t j = 0; j < size(); ++j) {
      blank[j] = total[j] += p_blank;
      star[j] = -std::numeric_limits<double>::infinity();
    }
  }
};

template <class T>
class CtcPrefixSearch {
 public:
  CtcPrefixSearch(const CtcKernels& kernels, std::int64_t width, double least)
      : kernels_(kernels), width_(width), least_(least), aligner_(kernels) {}

  // Returns the k best labellings, best first; none if all labels are impossible at some frame.
  std::vector<CtcHypothesis> search(const CtcInput<T>& x, std::int64_t k) {
    begin();
    PollEvery poll(kCtcFrameCost + width_ + x.vocabulary);
    for (std::int64_t t = 0; t < x.length; ++t) {
      poll.step();
      if (!tried_.choose(x.frame(t), x.vocabulary, x.blank, least_, kernels_.best<T>())) return {};
      if (tried_.labels().empty()) {
        beam_.add_blank(tried_.score(x.blank));
        continue;
      }
      extend_in_beam(x.blank);
      extend();
      select();
    }
    return finish(x, k);
  }

 private:
  static constexpr std::uint32_t kRoot = 0, kNobody = 0xffffffff;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Node {
    std::uint32_t parent, child, sibling;
    std::int32_t label;
    std::uint32_t place;  // index in the beam, or kNobody
  };

  // A hypothesis for the next beam: an old one, or an old one extended by a label.
  struct Candidate {
    double score;
    std::uint32_t source;                           // index in the beam
    std::int32_t label;                             // -1 for the hypothesis itself
    bool operator<(const Candidate& other) const {  // best first; ties are broken in a fixed order
      if (score != other.score) return score > other.score;
      return label != other.label ? label < other.label : source < other.source;
    }
  };

  void begin() {
    nodes_.assign(1, {kNobody, kNobody, kNobody, -1, 0});
    beam_.clear();
    beam_.push(kRoot, 0.0, -kInfinity, 0.0);  // before the first frame, the state is that after a blank
  }

  // Computes the new masses of the hypotheses in the beam: from blanks, repeats, and extensions of their
  // parents.
  void extend_in_beam(std::int64_t blank_label) {
    const std::size_t size = beam_.size(), padded = (size + kCtcBlock - 1) / kCtcBlock * kCtcBlock;
    words_ = (tried_.labels().size() + 63) / 64;
    taken_.assign(size * words_, 0);
    for (std::vector<double>* masses : {&blank_, &star_, &entering_, &total_}) {
      masses->assign(padded, -kInfinity);
    }
    number_.resize(std::max<std::size_t>(number_.size(), 1));
    for (std::size_t a = 0; a < tried_.labels().size(); ++a) {
      const std::size_t id = static_cast<std::size_t>(tried_.labels()[a].id);
      if (id >= number_.size()) number_.resize(id + 1);
      number_[id] = static_cast<std::uint32_t>(a);
    }
    const double p_blank = tried_.score(blank_label);
    for (std::size_t j = 0; j < size; ++j) {
      const Node& node = nodes_[beam_.node[j]];
      blank_[j] = beam_.total[j] + p_blank;
      if (node.label < 0) continue;
      const double p = tried_.score(node.label);
      if (p == -kInfinity) continue;
      star_[j] = beam_.star[j] + p;
      const std::uint32_t above = nodes_[node.parent].place;
      if (above == kNobody) continue;
      entering_[j] = mass_before(above, node.label) + p;
      const std::uint32_t a = number_[node.label];
      taken_[above * words_ + a / 64] |= std::uint64_t{1} << a % 64;
    }
    kernels_.log_add_masses(blank_.data(), entering_.data(), star_.data(), total_.data(),
                            static_cast<std::int64_t>(padded));
  }

  // Returns the mass that a label can extend: after the same label, only paths that end in a blank.
  double mass_before(std::size_t place, std::int32_t label) const {
    return nodes_[beam_.node[place]].label == label ? beam_.blank[place] : beam_.total[place];
  }

  // Collects the candidates: the hypotheses of the beam and their extensions, without those that cannot
  // survive.
  void extend() {
    candidates_.clear();
    const std::size_t size = beam_.size();
    double least = kInfinity;  // the score that an extension must beat if the beam is full
    for (std::size_t j = 0; j < size; ++j) {
      least = std::min(least, total_[j]);
      if (total_[j] > -kInfinity) candidates_.push_back({total_[j], static_cast<std::uint32_t>(j), -1});
    }
    if (static_cast<std::int64_t>(candidates_.size()) < width_) least = -kInfinity;
    for (std::size_t j = 0; j < size; ++j) {
      const std::int32_t last = nodes_[beam_.node[j]].label;
      const double total = beam_.total[j];
      const std::uint64_t* taken_row = taken_.data() + j * words_;
      std::size_t a = 0;
      for (const CtcTried::Label& label : tried_.labels()) {
        const std::size_t index = a++;
        if (!(total + label.score > least)) break;
        if (taken_row[index / 64] >> index % 64 & 1) continue;
        const double score = (label.id == last ? beam_.blank[j] : total) + label.score;
        if (score > least) candidates_.push_back({score, static_cast<std::uint32_t>(j), label.id});
      }
    }
  }

  // Keeps the best `width` candidates as the next beam.
  void select() {
    const auto width = static_cast<std::size_t>(width_);
    if (candidates_.size() > width) {
      std::nth_element(candidates_.begin(), candidates_.begin() + width_, candidates_.end());
      candidates_.resize(width);
    }
    for (const std::uint32_t node : beam_.node) nodes_[node].place = kNobody;
    next_.clear();
    for (const Candidate& c : candidates_) {
      if (c.label < 0) {
        next_.push(beam_.node[c.source], blank_[c.source], star_[c.source], c.score);
      } else {
        next_.push(child(beam_.node[c.source], c.label), -kInfinity, c.score, c.score);
      }
      nodes_[next_.node.back()].place = static_cast<std::uint32_t>(next_.size() - 1);
    }
    std::swap(beam_, next_);
  }

  // Returns the node of a labelling extended by a label; creates it if necessary.
  std::uint32_t child(std::uint32_t parent, std::int32_t label) {
    for (std::uint32_t n = nodes_[parent].child; n != kNobody; n = nodes_[n].sibling) {
      if (nodes_[n].label == label) return n;
    }
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({parent, kNobody, nodes_[parent].child, label, kNobody});
    nodes_[parent].child = fresh;
    return fresh;
  }

  std::vector<CtcHypothesis> finish(const CtcInput<T>& x, std::int64_t k) {
    std::vector<CtcHypothesis> hypotheses;
    candidates_.clear();
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      candidates_.push_back({beam_.total[j], static_cast<std::uint32_t>(j), 0});
    }
    const std::size_t count = std::min(candidates_.size(), static_cast<std::size_t>(k));
    std::partial_sort(candidates_.begin(), candidates_.begin() + count, candidates_.end());
    for (std::size_t j = 0; j < count; ++j) {
      CtcHypothesis h{{}, {}, candidates_[j].score};
      for (std::uint32_t n = beam_.node[candidates_[j].source]; n != kRoot; n = nodes_[n].parent) {
        h.labels.push_back(nodes_[n].label);
      }
      std::reverse(h.labels.begin(), h.labels.end());
      h.frames = aligner_.peaks(x, h.labels);
      hypotheses.push_back(std::move(h));
    }
    return hypotheses;
  }

  const CtcKernels& kernels_;
  std::int64_t width_;
  double least_;
  CtcAligner<T> aligner_;
  CtcTried tried_;
  std::vector<Node> nodes_;
  CtcBeam beam_, next_;
  std::vector<double> blank_, star_, entering_, total_;  // masses of the hypotheses after the frame
  std::vector<std::uint64_t> taken_;   // bit (hypothesis, label): the extension is already in the beam
  std::size_t words_ = 0;              // 64-bit words of taken_ per hypothesis
  std::vector<std::uint32_t> number_;  // (labels): index among the labels that are tried
  std::vector<Candidate> candidates_;
};

}  // namespace trellis
