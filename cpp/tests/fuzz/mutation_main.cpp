// Runs a fuzz driver on mutated seeds. It replaces libFuzzer where the compiler does not have it, and
// takes the same options: -seed= -runs= -max_total_time= -artifact_prefix=, then folders or a file.
#include <sanitizer/common_interface_defs.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz_input.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr int kSeconds = 5;                // longest time of one case
constexpr std::size_t kLargest = 1 << 12;  // bytes of a case

struct Options {
  std::uint64_t seed = 1, runs = ~std::uint64_t{0};
  double seconds = 1e9;
  std::string prefix;
  std::vector<std::string> paths;
};

Options options;
Bytes current;  // the case that is running, which is saved if it fails

void save_case() {
  const std::string path = options.prefix + "case";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(current.data()),
             static_cast<std::streamsize>(current.size()));
  std::fprintf(stderr, "the case is saved in %s\n", path.c_str());
}

void on_timeout(int) {
  std::fprintf(stderr, "the case takes longer than %d s\n", kSeconds);
  save_case();
  _exit(70);
}

void run_case() {
  const itimerval limit{{0, 0}, {kSeconds, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  try {
    // A copy of the exact size, so that ASAN notices every byte that is read past the end.
    const Bytes exact(current);
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exception: %s\n", error.what());
    save_case();
    std::exit(1);
  }
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  Bytes mutate(const std::vector<Bytes>& seeds) {
    Bytes data = seeds[below(seeds.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(data, seeds);
    if (data.size() > kLargest) data.resize(kLargest);
    return data;
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void change(Bytes& data, const std::vector<Bytes>& seeds) {
    static constexpr std::string_view kTokens[] = {"\n",       " ",
                                                   "\t",       "=",
                                                   "-",        "0x",
                                                   "1e999",    "nan",
                                                   "inf",      "18446744073709551616",
                                                   "-1",       "\\end\\",
                                                   "\xc3\xa9", "\xff",
                                                   "</s>",     std::string_view("\0", 1)};
    const std::size_t at = below(data.size() + 1);
    const auto place = data.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = std::min(below(1 + (std::size_t{1} << below(7))), data.size() - at);
    switch (below(7)) {
      case 0:
        if (at < data.size()) data[at] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 1:
        if (at < data.size()) data[at] = static_cast<std::uint8_t>(random_());
        break;
      case 2: data.erase(place, place + static_cast<std::ptrdiff_t>(length)); break;
      case 3: {
        const Bytes piece(place, place + static_cast<std::ptrdiff_t>(length));
        data.insert(data.begin() + static_cast<std::ptrdiff_t>(below(data.size() + 1)), piece.begin(),
                    piece.end());
        break;
      }
      case 4: {
        const std::string_view token = kTokens[below(std::size(kTokens))];
        data.insert(place, token.begin(), token.end());
        break;
      }
      case 5: {  // the beginning of this case and the end of another
        const Bytes& other = seeds[below(seeds.size())];
        const std::size_t from = below(other.size() + 1);
        data.erase(place, data.end());
        data.insert(data.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        break;
      }
      default: data.resize(at);
    }
  }

  std::mt19937_64 random_;
};

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool parse_option(const std::string& word) {
  const auto value = [&](const char* name, auto parse) {
    const std::string start = std::string(name) + "=";
    if (!word.starts_with(start)) return false;
    parse(word.substr(start.size()));
    return true;
  };
  return value("-seed", [](const std::string& s) { options.seed = std::stoull(s); }) ||
         value("-runs", [](const std::string& s) { options.runs = std::stoull(s); }) ||
         value("-max_total_time", [](const std::string& s) { options.seconds = std::stod(s); }) ||
         value("-artifact_prefix", [](const std::string& s) { options.prefix = s; });
}

}  // namespace

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (!parse_option(word) && !word.starts_with('-')) options.paths.push_back(word);
  }
  std::vector<Bytes> seeds{{}};
  for (const std::string& path : options.paths) {
    if (!std::filesystem::is_directory(path)) {
      current = read_file(path);
      run_case();
      options.runs = 0;
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path))
      seeds.push_back(read_file(entry.path()));
  }
  std::signal(SIGVTALRM, on_timeout);
  __sanitizer_set_death_callback(save_case);
  std::sort(seeds.begin(), seeds.end());  // the order of a folder's files is not fixed
  Mutator mutator(options.seed);
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t runs = 0;
  for (; runs < options.runs; ++runs) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() >
        options.seconds)
      break;
    current = runs < seeds.size() ? seeds[runs] : mutator.mutate(seeds);
    run_case();
  }
  std::fprintf(stderr, "stat::number_of_executed_units: %llu\n", static_cast<unsigned long long>(runs));
  return 0;
}
