// Tests the parts of n-gram training: sorting on disk, spools and logarithms. Trains small models.
#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ngram/trainer.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

const std::string& folder() {
  static const std::string path = [] {
    const auto temporary = std::filesystem::temp_directory_path() / "trellis_test_ngram_training";
    std::filesystem::create_directories(temporary);
    return temporary.string();
  }();
  return path;
}

// Counts equal rows, and compares with std::map.
void test_counting_sorter(int key, std::size_t rows, std::size_t memory, int threads) {
  std::mt19937 generator(static_cast<unsigned>(rows));
  std::uniform_int_distribution<std::uint32_t> word(0, 9);
  std::map<std::vector<std::uint32_t>, std::uint64_t> expected;
  RowSorter sorter({key, 2, true}, memory, threads, folder());
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<std::uint32_t> row(static_cast<std::size_t>(key));
    for (std::uint32_t& w : row) w = word(generator) == 0 ? 0xfffffff0 : word(generator);
    ++expected[row];
    sorter.add(row.data());
  }
  sorter.finish(memory);
  for (const auto& [words, count] : expected) {
    const std::uint32_t* row = sorter.next();
    CHECK(row != nullptr);
    if (row == nullptr) return;
    CHECK(std::equal(words.begin(), words.end(), row));
    CHECK(read_wide(row + key) == count);
  }
  CHECK(sorter.next() == nullptr);
  CHECK(sorter.next() == nullptr);
}

// Sorts rows by their key and keeps their payload.
void test_payload(std::size_t rows, std::size_t memory) {
  RowSorter sorter({2, 3, false}, memory, 2, folder());
  for (std::uint32_t i = 0; i < rows; ++i) {
    const std::uint32_t number = i * 7919 % static_cast<std::uint32_t>(rows);  // a permutation
    const std::uint32_t row[] = {number % 2, number, number + 1, number + 2, number + 3};
    sorter.add(row);
  }
  sorter.finish(memory);
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint32_t* row = sorter.next();
    CHECK(row != nullptr && row[1] == number && row[2] == number + 1 && row[4] == number + 3);
    number = number + 2 < rows ? number + 2 : 1;
  }
  CHECK(sorter.next() == nullptr);
}

void test_spool(std::size_t memory) {
  Spool spool(folder(), memory);
  for (int i = 0; i < 1000; ++i) spool.append(&i, sizeof i);
  for (int pass = 0; pass < 2; ++pass) {
    spool.rewind();
    int value = -1;
    for (int i = 0; i < 1000; ++i) {
      CHECK(spool.read(&value, sizeof value));
      CHECK(value == i);
    }
    CHECK(!spool.read(&value, sizeof value));
  }
}

std::string log10_text(double value, int decimals) {
  std::string text;
  append_log10(text, value, decimals);
  return text;
}

void test_logarithms() {
  CHECK(log10_text(1.0, 7) == "0");
  CHECK(log10_text(2.0, 7) == "0");
  CHECK(log10_text(0.1, 7) == "-1");
  CHECK(log10_text(0.5, 7) == "-0.30103");
  CHECK(log10_text(0.5, 2) == "-0.3");
  CHECK(log10_text(0.5, 15) == "-0.301029995663981");
  CHECK(log10_text(std::pow(10.0, -0.05), 2) == "-0.05");
  CHECK(log10_text(std::pow(10.0, -10.009), 3) == "-10.009");
  CHECK(log10_text(0.0, 7) == "-99");
  CHECK(log10_text(1e-200, 7) == "-99");
  CHECK(log10_text(1e-98, 15) == "-98");
}

std::string train(const std::string& text, int order, std::size_t memory) {
  NgramTrainer trainer({.order = order,
                        .characters = false,
                        .skip_symbols = false,
                        .decimals = 7,
                        .memory = memory,
                        .threads = 2,
                        .folder = folder()});
  trainer.feed(text);
  trainer.end_text();
  trainer.estimate(std::vector<std::uint64_t>(static_cast<std::size_t>(order), 0),
                   std::array<double, 3>{0.5, 1.0, 1.5});
  std::string out;
  for (std::string block = trainer.next_block(); !block.empty(); block = trainer.next_block())
    out += block;
  return out;
}

void test_model() {
  const std::string text = train("a b c\na b", 2, 1 << 20);
  CHECK(text.find("ngram 1=6\nngram 2=5\n") != std::string::npos);
  CHECK(text.find("-0.1870866\tc </s>\n") != std::string::npos);
  std::string lines;
  std::mt19937 generator(5);
  for (int i = 0; i < 20000; ++i) {
    lines += static_cast<char>('a' + generator() % 20 * generator() % 20);
    lines += i % 9 == 8 ? '\n' : ' ';
  }
  CHECK(train(lines, 4, 1 << 12) == train(lines, 4, 1 << 28));
}

// The files of a folder that does not exist cannot be opened.
void test_error() {
  TemporaryFile file(folder() + "/none");
  bool failed = false;
  try {
    file.append("a", 1);
  } catch (const FileError& error) {
    failed = error.code == ENOENT && error.path == folder() + "/none";
  }
  CHECK(failed);
}

}  // namespace

int main() {
  for (const int key : {1, 2, 3, 5}) {
    for (const std::size_t memory : {std::size_t{0}, std::size_t{5000}, std::size_t{1} << 24}) {
      for (const std::size_t rows : {0, 1, 2, 3, 700}) test_counting_sorter(key, rows, memory, 1);
    }
  }
  test_counting_sorter(3, 60000, 1 << 21, 3);
  test_counting_sorter(3, 60000, 1 << 18, 3);
  for (const std::size_t memory : {0, 1 << 12, 1 << 20}) test_payload(5003, memory);
  for (const std::size_t memory : {3, 4, 1000, 3999, 4000, 5000}) test_spool(memory);
  test_logarithms();
  test_model();
  test_error();
  CHECK(std::filesystem::is_empty(folder()));
  std::filesystem::remove_all(folder());
  return failures();
}
