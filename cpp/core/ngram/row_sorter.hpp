// Sorts rows of 32-bit words by their first words, with a limited amount of memory.
//
// Rows are collected in memory. When the memory is full, they are sorted and written to a temporary file
// as a run; at the end, the runs are merged. Rows that fit in memory are never written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/poll.hpp"
#include "base/temporary_file.hpp"
#include "base/thread_pool.hpp"

namespace trellis {

// A row has `key` words that are compared, the most significant first, and `payload` words that are not.
// With `counts`, rows are added without payload, and equal rows become one row whose payload is the
// number of these rows, in 64 bits.
struct RowLayout {
  int key;
  int payload;
  bool counts;

  int width() const { return key + payload; }
  int input_width() const { return counts ? key : width(); }
};

// 64-bit numbers in rows.
inline std::uint64_t read_wide(const std::uint32_t* words) {
  return words[0] | std::uint64_t{words[1]} << 32;
}
inline void write_wide(std::uint64_t value, std::uint32_t* words) {
  words[0] = static_cast<std::uint32_t>(value);
  words[1] = static_cast<std::uint32_t>(value >> 32);
}

namespace rows_detail {

// Unsorted rows. They are stored in blocks, so adding rows never copies or doubles the memory.
class RowBlocks {
 public:
  explicit RowBlocks(int width) : width_(width) {}

  std::size_t size() const { return size_; }
  const std::uint32_t* row(std::uint32_t i) const {
    return blocks_[i / kRows].get() + std::size_t{i % kRows} * static_cast<std::size_t>(width_);
  }
  void prefetch(std::uint32_t i) const { __builtin_prefetch(row(i)); }
  void add(const std::uint32_t* row) {
    const auto width = static_cast<std::size_t>(width_);
    if (size_ == blocks_.size() * kRows) blocks_.emplace_back(new std::uint32_t[kRows * width]);
    std::copy_n(row, width, blocks_[size_ / kRows].get() + size_ % kRows * width);
    ++size_;
  }
  void clear() { size_ = 0; }
  void release() { *this = RowBlocks(width_); }

 private:
  static constexpr std::uint32_t kRows = 1 << 12;

  int width_;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<std::uint32_t[]>> blocks_;
};

// Rows are read in the order of their keys, so they lie anywhere in memory: this many are prefetched.
inline constexpr std::ptrdiff_t kAhead = 16;

// A row to be sorted: two words of its key, and its number.
struct Entry {
  std::uint64_t words;
  std::uint32_t row;
};

// Sorts entries by the words of their keys from `depth` on. Two words are compared at a time; only rows
// in which they are equal are read again.
inline void sort_entries(const RowBlocks& rows, int key, int depth, Entry* first, Entry* last,
                         PollEvery& poll) {
  for (Entry* entry = first; entry != last; ++entry) {
    if (last - entry > kAhead) rows.prefetch(entry[kAhead].row);
    const std::uint32_t* row = rows.row(entry->row);
    const std::uint64_t high = depth < key ? row[depth] : 0, low = depth + 1 < key ? row[depth + 1] : 0;
    entry->words = high << 32 | low;
  }
  std::sort(first, last, [&poll](const Entry& a, const Entry& b) {
    poll.step();
    return a.words < b.words;
  });
  if (depth + 2 >= key) return;
  for (Entry* begin = first; begin != last;) {
    Entry* end = begin + 1;
    while (end != last && end->words == begin->words) ++end;
    if (end - begin > 1) sort_entries(rows, key, depth + 2, begin, end, poll);
    begin = end;
  }
}

// Sorted rows, in memory or on disk.
class Run {
 public:
  Run(const RowLayout& layout, const RowBlocks& rows, const Entry* first, const Entry* last)
      : layout_(layout), rows_(&rows), entry_(first), last_(last), buffer_(layout.width()) {
    advance();
  }
  Run(const RowLayout& layout, TemporaryFile& file, std::int64_t begin, std::int64_t end,
      std::size_t buffer_rows)
      : layout_(layout), file_(&file), begin_(begin), end_(end) {
    const auto width = static_cast<std::size_t>(layout.width());
    buffer_.resize(width * std::max(buffer_rows, std::size_t{1}));
    at_ = filled_ = buffer_.size();
    advance();
  }

  // The current row; null after the last one.
  const std::uint32_t* row() const { return row_; }

  void advance() { file_ != nullptr ? advance_on_disk() : advance_in_memory(); }

 private:
  void advance_in_memory() {
    row_ = nullptr;
    if (entry_ == last_) return;
    if (last_ - entry_ > kAhead) rows_->prefetch(entry_[kAhead].row);
    row_ = rows_->row((entry_++)->row);
    if (!layout_.counts) return;
    std::uint64_t count = 1;
    for (; entry_ != last_ && std::equal(row_, row_ + layout_.key, rows_->row(entry_->row)); ++entry_)
      ++count;
    std::copy_n(row_, layout_.key, buffer_.data());
    write_wide(count, buffer_.data() + layout_.key);
    row_ = buffer_.data();
  }

  void advance_on_disk() {
    at_ += static_cast<std::size_t>(layout_.width());
    if (at_ >= filled_) {
      row_ = nullptr;
      const std::size_t bytes = static_cast<std::size_t>(
          std::min(end_ - begin_, static_cast<std::int64_t>(4 * buffer_.size())));
      if (bytes == 0) return;
      file_->read(begin_, buffer_.data(), bytes);
      begin_ += static_cast<std::int64_t>(bytes);
      filled_ = bytes / 4;
      at_ = 0;
    }
    row_ = buffer_.data() + at_;
  }

  RowLayout layout_;
  const std::uint32_t* row_ = nullptr;
  // In memory: the entries that follow the current row.
  const RowBlocks* rows_ = nullptr;
  const Entry *entry_ = nullptr, *last_ = nullptr;
  // On disk: [begin_, end_) are the bytes of the run that have not been read. The current row is at word
  // at_ of the buffer; filled_ words of the buffer are valid.
  TemporaryFile* file_ = nullptr;
  std::int64_t begin_ = 0, end_ = 0;
  std::vector<std::uint32_t> buffer_;  // on disk: rows of the run; in memory: a row with its count
  std::size_t at_ = 0, filled_ = 0;
};

// Merges runs. The heap has the runs that have rows left, the one with the smallest row first.
class Merger {
 public:
  Merger(const RowLayout& layout, std::vector<Run> runs)
      : layout_(layout), runs_(std::move(runs)), out_(static_cast<std::size_t>(layout.width())) {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].row() != nullptr) heap_.push_back(i);
    }
    for (std::size_t i = heap_.size(); i-- > 0;) sift(i);
  }

  // Returns the next row, or null; it stays valid until the next call.
  const std::uint32_t* next() {
    poll_.step();
    if (heap_.empty()) return nullptr;
    std::copy_n(runs_[heap_[0]].row(), layout_.width(), out_.data());
    pop();
    if (layout_.counts) {
      while (!heap_.empty() && compare(runs_[heap_[0]].row(), out_.data()) == 0) {
        std::uint32_t* count = out_.data() + layout_.key;
        write_wide(read_wide(count) + read_wide(runs_[heap_[0]].row() + layout_.key), count);
        pop();
      }
    }
    return out_.data();
  }

 private:
  int compare(const std::uint32_t* a, const std::uint32_t* b) const {
    for (int i = 0; i < layout_.key; ++i) {
      if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    }
    return 0;
  }

  // Removes the first row.
  void pop() {
    runs_[heap_[0]].advance();
    if (runs_[heap_[0]].row() == nullptr) {
      heap_[0] = heap_.back();
      heap_.pop_back();
    }
    sift(0);
  }

  void sift(std::size_t parent) {
    for (;;) {
      std::size_t child = 2 * parent + 1;
      if (child >= heap_.size()) return;
      if (child + 1 < heap_.size() && before(child + 1, child)) ++child;
      if (!before(child, parent)) return;
      std::swap(heap_[child], heap_[parent]);
      parent = child;
    }
  }
  bool before(std::size_t a, std::size_t b) const {
    return compare(runs_[heap_[a]].row(), runs_[heap_[b]].row()) < 0;
  }

  RowLayout layout_;
  std::vector<Run> runs_;
  std::vector<std::size_t> heap_;
  std::vector<std::uint32_t> out_;
  PollEvery poll_{64};
};

}  // namespace rows_detail

class RowSorter {
 public:
  // `memory` is the number of bytes for rows before finish().
  RowSorter(const RowLayout& layout, std::size_t memory, int threads, const std::string& folder)
      : layout_(layout), threads_(threads), folder_(folder), rows_(layout.input_width()), file_(folder) {
    const std::size_t most = 0xffffffff;
    capacity_ = std::clamp(memory / row_bytes(), std::size_t{2}, most);
  }
  RowSorter(const RowSorter&) = delete;
  RowSorter& operator=(const RowSorter&) = delete;

  // Adds a row of layout.input_width() words.
  void add(const std::uint32_t* row) {
    if (rows_.size() == capacity_) spill();
    rows_.add(row);
  }

  // Ends the additions. `memory` is the number of bytes for rows or, if they do not fit, for buffers.
  void finish(std::size_t memory) {
    std::vector<rows_detail::Run> runs;
    if (spans_.empty() && rows_.size() * row_bytes() <= memory) {
      runs = sorted_runs();
    } else {
      spill();
      rows_.release();
      entries_ = {};
      const std::size_t most = std::max(memory / kSmallestBuffer, std::size_t{2});
      while (spans_.size() > most) merge_groups(most, memory);
      runs = read_runs(0, spans_.size(), memory);
    }
    merger_ = std::make_unique<rows_detail::Merger>(layout_, std::move(runs));
  }

  // Returns the next row of layout.width() words in order, or null. Valid until the next call.
  const std::uint32_t* next() { return merger_->next(); }

 private:
  using Entry = rows_detail::Entry;
  using Span = std::pair<std::int64_t, std::int64_t>;
  // Bytes of a run that are read at a time: less would be slow, and more would not be faster.
  static constexpr std::size_t kSmallestBuffer = 1 << 16, kLargestBuffer = 1 << 22;
  static constexpr std::int64_t kSmallestPart = 1 << 14;  // rows that are worth another thread

  std::size_t row_bytes() const {
    return 4 * static_cast<std::size_t>(layout_.input_width()) + sizeof(Entry);
  }

  // Sorts the rows in as many parts as there are threads, and returns the entries of each.
  std::vector<Span> sort() {
    const auto count = static_cast<std::int64_t>(rows_.size());
    const std::int64_t parts =
        std::clamp(count / kSmallestPart, std::int64_t{1}, std::int64_t{threads_});
    entries_.resize(rows_.size());
    for (std::uint32_t i = 0; i < rows_.size(); ++i) entries_[i].row = i;
    std::vector<Span> spans;
    for (std::int64_t i = 0; i < parts; ++i)
      spans.emplace_back(count * i / parts, count * (i + 1) / parts);
    parallel_for(parts, threads_, [&] {
      return [&](std::int64_t i) {
        PollEvery poll(8);
        const auto [begin, end] = spans[static_cast<std::size_t>(i)];
        rows_detail::sort_entries(rows_, layout_.key, 0, entries_.data() + begin, entries_.data() + end,
                                  poll);
      };
    });
    return spans;
  }

  // Returns the sorted rows that are in memory, one run per thread.
  std::vector<rows_detail::Run> sorted_runs() {
    std::vector<rows_detail::Run> runs;
    for (const auto& [begin, end] : sort())
      runs.emplace_back(layout_, rows_, entries_.data() + begin, entries_.data() + end);
    return runs;
  }

  // Moves the rows to the file, as a run.
  void spill() {
    rows_detail::Merger merger(layout_, sorted_runs());
    spans_.push_back(write_run(file_, merger));
    rows_.clear();
  }

  // Writes all rows of a merger, and returns their byte range in the file: (begin, end).
  Span write_run(TemporaryFile& file, rows_detail::Merger& merger) {
    constexpr std::size_t kBuffer = 1 << 16;  // words
    const auto width = static_cast<std::size_t>(layout_.width());
    const std::int64_t begin = file.size();
    std::vector<std::uint32_t> buffer;
    while (const std::uint32_t* row = merger.next()) {
      buffer.insert(buffer.end(), row, row + width);
      if (buffer.size() < kBuffer) continue;
      file.append(buffer.data(), 4 * buffer.size());
      buffer.clear();
    }
    if (!buffer.empty()) file.append(buffer.data(), 4 * buffer.size());
    return {begin, file.size()};
  }

  std::vector<rows_detail::Run> read_runs(std::size_t first, std::size_t last, std::size_t memory) {
    const std::size_t row_bytes = 4 * static_cast<std::size_t>(layout_.width());
    const std::size_t buffer = std::min(memory / (last - first), kLargestBuffer);
    std::vector<rows_detail::Run> runs;
    for (std::size_t i = first; i < last; ++i) {
      runs.emplace_back(layout_, file_, spans_[i].first, spans_[i].second, buffer / row_bytes);
    }
    return runs;
  }

  // Merges groups of `most` runs into one each, in a new file.
  void merge_groups(std::size_t most, std::size_t memory) {
    TemporaryFile file(folder_);
    std::vector<Span> spans;
    for (std::size_t first = 0; first < spans_.size(); first += most) {
      const std::size_t last = std::min(first + most, spans_.size());
      rows_detail::Merger merger(layout_, read_runs(first, last, memory));
      spans.push_back(write_run(file, merger));
    }
    file_ = std::move(file);
    spans_ = std::move(spans);
  }

  RowLayout layout_;
  int threads_;
  std::string folder_;
  std::size_t capacity_;  // rows
  rows_detail::RowBlocks rows_;
  std::vector<Entry> entries_;
  TemporaryFile file_;
  std::vector<Span> spans_;  // the bytes of each run in the file
  std::unique_ptr<rows_detail::Merger> merger_;
};

}  // namespace trellis
