// A text corpus, read once: each distinct word (type) gets a number, and the text is stored as numbers.
//
// Each thread numbers the words of its part of a block in its own table, so that threads do not wait for
// each other. The tables are merged when the whole text has been read. Training reads chunks of some
// thousand words, in complete lines. Text beyond a memory limit is stored in a temporary file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/tables.hpp"
#include "base/thread_pool.hpp"
#include "embedding/subwords.hpp"

namespace trellis {

class Corpus {
 public:
  static constexpr std::int32_t kUnknown = -1, kLineEnd = -2;  // special numbers returned by read()
  // Words per chunk; a chunk may have up to kLongestLine more.
  static constexpr std::int64_t kChunk = 8192;
  static constexpr std::int64_t kLongestLine = 1024;  // words; longer lines are cut at a chunk's end

  struct Chunk {
    std::int64_t segment, begin, count;  // a range of numbers, including line ends
    std::int64_t words_before;           // words of the text before this chunk
  };

  // If `end_words`, each line ends with the word </s>. `memory` is the number of words to store in
  // memory.
  explicit Corpus(int threads, bool end_words = false, std::int64_t memory = std::int64_t{1} << 25)
      : tables_(static_cast<std::size_t>(threads)), memory_(memory), end_words_(end_words) {}

  // Adds text: words are separated by white space, and each line is a sentence. `text` may end anywhere,
  // even inside a word.
  void add_text(std::string_view text) {
    check_open();
    text_.append(text);
    std::size_t end = text_.rfind('\n');
    end = end == std::string::npos ? last_space() : end + 1;
    if (end > 0) parse_block(end);
    text_.erase(0, end);
    if (text_.size() > kLongestWord) throw std::length_error("a word has more than 64 MiB");
  }

  // Ends the last line. Must be called at the end of each file.
  void end_text() {
    if (incomplete_) check_open();
    if (text_.empty()) return;
    text_.push_back('\n');
    parse_block(text_.size());
    text_.clear();
  }

  // Adds a word that may contain anything, even white space; end_sentence() ends its sentence.
  void add_word(std::string_view word) {
    check_open();
    if (added_words_.ids.size() >= static_cast<std::size_t>(kSegment)) end_sentences();
    tables_[0].add(word, added_words_.ids);
  }
  void end_sentence() { end_line(tables_[0], added_words_.ids); }
  void end_sentences() {
    added_words_.table = 0;
    if (!added_words_.ids.empty()) store_segment(std::move(added_words_));
    added_words_ = {};
  }

  // Merges the tables; nothing can be added afterwards.
  void finish() {
    check_open();
    end_text();
    end_sentences();
    finished_ = true;
    const Incomplete incomplete(*this);
    PollEvery poll(256);
    for (Table& table : tables_) {
      table.type.resize(table.strings.size());
      for (std::uint32_t id = 0; id < table.strings.size(); ++id) {
        poll.step();
        const std::uint32_t type = types_.intern(table.strings.string(id));
        if (type == counts_.size()) counts_.push_back(0);
        counts_[type] += table.count[id];
        table.type[id] = type;
      }
      table.strings = StringTable();
      table.count = std::vector<std::int64_t>();  // unlike `= {}`, this releases the memory
    }
  }

  std::int64_t words() const { return words_; }
  std::int64_t lines() const { return lines_; }
  const StringTable& types() const { return types_; }
  const std::vector<std::int64_t>& counts() const { return counts_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }

  // Returns the types with at least min_count occurrences, most frequent first. Types with equal counts
  // are sorted by their bytes, so the order does not depend on the threads.
  std::vector<std::uint32_t> common_types(std::int64_t min_count, std::int64_t max_types) const {
    std::vector<std::uint32_t> types;
    for (std::uint32_t type = 0; type < types_.size(); ++type) {
      if (counts_[type] >= min_count) types.push_back(type);
    }
    PollEvery poll(32);
    std::sort(types.begin(), types.end(), [&](std::uint32_t a, std::uint32_t b) {
      poll.step();
      if (counts_[a] != counts_[b]) return counts_[a] > counts_[b];
      return types_.string(a) < types_.string(b);
    });
    if (max_types > 0 && static_cast<std::int64_t>(types.size()) > max_types)
      types.resize(static_cast<std::size_t>(max_types));
    return types;
  }

  // Sets the number that read() returns for each type, (types).
  void number(const std::vector<std::int32_t>& number_of_type) {
    if (incomplete_) check_open();
    if (number_of_type.size() != types_.size())
      throw std::invalid_argument("number_of_type must have one number per type");
    largest_ = kUnknown;
    for (const std::int32_t number : number_of_type) {
      if (number < kUnknown) throw std::invalid_argument("numbers must be -1 or above");
      largest_ = std::max(largest_, number);
    }
    for (Table& table : tables_) {
      table.number.resize(table.type.size());
      for (std::size_t i = 0; i < table.type.size(); ++i)
        table.number[i] = number_of_type[table.type[i]];
    }
  }

  std::int32_t largest_number() const { return largest_; }

  // Reads the numbers of a chunk, (chunk.count), including kUnknown and kLineEnd.
  void read(const Chunk& chunk, std::int32_t* out) {
    const Segment& segment = segments_[static_cast<std::size_t>(chunk.segment)];
    const Table& table = tables_[segment.table];
    const auto count = static_cast<std::size_t>(chunk.count);
    const std::uint32_t* ids = segment.ids.data() + chunk.begin;
    if (segment.ids.empty()) {
      ids = reinterpret_cast<std::uint32_t*>(out);
      const std::lock_guard lock(mutex_);
      seek(segment.offset + chunk.begin * std::int64_t{4});
      if (std::fread(out, 4, count, file_.get()) != count)
        throw std::runtime_error("the temporary file of the text cannot be read");
    }
    if (table.number.size() != table.type.size()) throw std::logic_error("words have no numbers yet");
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t id = ids[i];
      out[i] = id == kNone ? kLineEnd : table.number[id];
    }
  }

 private:
  static constexpr std::size_t kLongestWord = std::size_t{1} << 26;  // bytes
  static constexpr std::int64_t kSegment = 1 << 20;                  // words of a segment of add_word()
  // cut() searches for a line break in this number of bytes.
  static constexpr std::size_t kLineSearchBytes = 1 << 16;

  // The words of one thread.
  struct Table {
    StringTable strings;
    std::vector<std::int64_t> count;   // (strings)
    std::vector<std::uint32_t> type;   // (strings): the type in the merged table
    std::vector<std::int32_t> number;  // (strings): the number that read() returns

    void add(std::string_view word, std::vector<std::uint32_t>& ids) {
      const std::uint32_t id = strings.intern(word);
      if (id == count.size()) count.push_back(0);
      ++count[id];
      ids.push_back(id);
    }
  };

  struct Segment {
    std::size_t table = 0;
    std::vector<std::uint32_t> ids;  // kNone at the end of a line; empty if stored in the file
    std::int64_t offset = 0;         // in the file
  };

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0'; }

  void end_line(Table& table, std::vector<std::uint32_t>& ids) const {
    if (ids.empty() || ids.back() == kNone) return;
    if (end_words_) table.add(kEndOfSentence, ids);
    ids.push_back(kNone);
  }

  void parse(const char* p, const char* end, Table& table, std::vector<std::uint32_t>& ids) const {
    ids.reserve(static_cast<std::size_t>(end - p) / 5);
    PollEvery poll(32);
    while (p < end) {
      poll.step();
      if (is_space(*p)) {
        if (*p == '\n') end_line(table, ids);
        ++p;
        continue;
      }
      const char* begin = p;
      while (p < end && !is_space(*p)) ++p;
      table.add({begin, static_cast<std::size_t>(p - begin)}, ids);
    }
    ids.shrink_to_fit();
  }

  // Marks the corpus as incomplete if an exception, such as an interruption, leaves the scope: some
  // words have been counted, but not stored.
  class Incomplete {
   public:
    explicit Incomplete(Corpus& corpus) : corpus_(corpus), exceptions_(std::uncaught_exceptions()) {}
    ~Incomplete() {
      if (std::uncaught_exceptions() > exceptions_) corpus_.incomplete_ = true;
    }
    Incomplete(const Incomplete&) = delete;
    Incomplete& operator=(const Incomplete&) = delete;

   private:
    Corpus& corpus_;
    const int exceptions_;
  };

  void check_open() const {
    if (incomplete_) throw std::logic_error("the corpus is incomplete, because reading was interrupted");
    if (finished_) throw std::logic_error("the corpus is finished");
  }

  std::size_t last_space() const {
    std::size_t end = text_.size();
    while (end > 0 && !is_space(text_[end - 1])) --end;
    return end;
  }

  // Returns the first position from `at` on where a part may begin: after a line break if one is within
  // kLineSearchBytes, otherwise at white space.
  std::size_t cut(std::size_t at, std::size_t end) const {
    const void* line = std::memchr(text_.data() + at, '\n', std::min(kLineSearchBytes, end - at));
    if (line != nullptr)
      return static_cast<std::size_t>(static_cast<const char*>(line) - text_.data()) + 1;
    while (at < end && !is_space(text_[at])) ++at;
    return at;
  }

  void parse_block(std::size_t end) {
    const std::size_t parts = tables_.size();
    std::vector<std::size_t> bounds{0};
    for (std::size_t i = 1; i < parts; ++i)
      bounds.push_back(cut(std::max(bounds.back(), end * i / parts), end));
    bounds.push_back(end);
    std::vector<Segment> segments(parts);
    const Incomplete incomplete(*this);
    parallel_for(static_cast<std::int64_t>(parts), static_cast<int>(parts), [&] {
      return [&](std::int64_t i) {
        const auto part = static_cast<std::size_t>(i);
        segments[part].table = part;
        parse(text_.data() + bounds[part], text_.data() + bounds[part + 1], tables_[part],
              segments[part].ids);
      };
    });
    for (Segment& segment : segments) {
      if (!segment.ids.empty()) store_segment(std::move(segment));
    }
  }

  void store_segment(Segment&& segment) {
    const auto size = static_cast<std::int64_t>(segment.ids.size());
    cut_into_chunks(segment.ids);
    if (in_memory_ + size <= memory_) {
      in_memory_ += size;
    } else {
      move_to_file(segment);
    }
    segments_.push_back(std::move(segment));
  }

  // Divides a segment into chunks that end with a line, unless a line is very long.
  void cut_into_chunks(const std::vector<std::uint32_t>& ids) {
    const auto size = static_cast<std::int64_t>(ids.size());
    Chunk chunk{static_cast<std::int64_t>(segments_.size()), 0, 0, words_};
    std::int64_t words = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const bool line = ids[static_cast<std::size_t>(i)] == kNone;
      (line ? lines_ : words) += 1;
      if (i + 1 < size && !(line && words >= kChunk) && words < kChunk + kLongestLine) continue;
      chunk.count = i + 1 - chunk.begin;
      chunks_.push_back(chunk);
      words_ += words;
      chunk.begin = i + 1;
      chunk.words_before = words_;
      words = 0;
    }
  }

  // Moves a segment to the temporary file.
  void move_to_file(Segment& segment) {
    if (!file_) file_.reset(std::tmpfile());
    if (!file_) throw std::runtime_error("no temporary file can be made for the text");
    segment.offset = file_size_;
    seek(file_size_);
    if (std::fwrite(segment.ids.data(), 4, segment.ids.size(), file_.get()) != segment.ids.size())
      throw std::runtime_error("the temporary file of the text cannot be written: is the disk full?");
    file_size_ += static_cast<std::int64_t>(segment.ids.size()) * 4;
    segment.ids = std::vector<std::uint32_t>();  // unlike `= {}`, this releases the memory
  }

  void seek(std::int64_t offset) {
#if defined(_WIN32)
    const int failed = _fseeki64(file_.get(), offset, SEEK_SET);
#else
    const int failed = fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET);
#endif
    if (failed != 0) throw std::runtime_error("the temporary file of the text cannot be read");
  }

  std::vector<Table> tables_;  // (threads)
  std::string text_;           // text that has not been parsed yet
  Segment added_words_;        // the words of add_word()
  StringTable types_;
  std::vector<std::int64_t> counts_;  // (types)
  std::vector<Segment> segments_;
  std::vector<Chunk> chunks_;
  std::unique_ptr<std::FILE, Close> file_;
  std::mutex mutex_;  // guards the file
  std::int64_t file_size_ = 0, in_memory_ = 0, memory_, words_ = 0, lines_ = 0;
  std::int32_t largest_ = -1;
  bool finished_ = false;
  bool incomplete_ = false;  // an exception ended parse_block() or finish()
  const bool end_words_;
};

}  // namespace trellis
