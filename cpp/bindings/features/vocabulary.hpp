// Assigns numbers to the names of ready features. Reading names needs the GIL, looking them up does not.
#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/tables.hpp"
#include "bindings/base/arrays.hpp"
#include "bindings/features/ready_features.hpp"

namespace trellis {

// The features of one sequence, read once and used by several trainers and taggers.
class ItemSequence {
 public:
  explicit ItemSequence(nanobind::handle sequence) {
    ItemSequence* other = nullptr;
    if (nanobind::try_cast(sequence, other, false) && other != nullptr) {  // None casts to null
      reading_ = other->reading_;
    } else {
      read(sequence, reading_);
    }
  }

  const Reading& reading() const { return reading_; }
  std::size_t size() const { return reading_.row.size(); }
  nanobind::list items() const;

  // Reads any iterable of positions.
  static void read(nanobind::handle sequence, Reading& r);

 private:
  Reading reading_;
};

class Vocabulary {
 public:
  // begin, id and value of sparse rows; value is None if all are 1.
  using Arrays = std::tuple<Numpy<std::int64_t>, Numpy<std::int32_t>, std::optional<Numpy<double>>>;

  Arrays learn(nanobind::handle sequences);  // adds new names
  Arrays learn_items(const ItemSequence& items);
  Arrays find(nanobind::handle sequences, int threads) const;  // omits unknown names
  std::uint32_t size() const { return names_.size(); }
  std::size_t longest_run() const { return names_.longest_run(); }
  std::tuple<Numpy<char>, Numpy<std::int64_t>> strings() const;
  void restore(const std::vector<std::string>& names);
  // Name i is data[begin[i] : begin[i] + size[i]]; it must be UTF-8 without NUL.
  void restore_from(nanobind::ndarray<const std::uint8_t, nanobind::ndim<1>, nanobind::c_contig> data,
                    nanobind::ndarray<const std::int64_t, nanobind::ndim<1>, nanobind::c_contig> begin,
                    nanobind::ndarray<const std::int64_t, nanobind::ndim<1>, nanobind::c_contig> size);

  const StringTable& names() const { return names_; }

 private:
  // Adds the names of a reading; ids receives their numbers.
  void intern_all(const Reading& r, std::vector<std::uint32_t>& ids);

  StringTable names_;
};

}  // namespace trellis
