// Bytes on disk that nobody else needs: temporary files, and the error of the operating system.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#if defined(_WIN32)
#include <filesystem>
#endif

namespace trellis {

// An error of the operating system. The bindings turn it into an OSError with this path.
class FileError : public std::runtime_error {
 public:
  FileError(int code, const std::string& path)
      : std::runtime_error("a temporary file in " + path + " cannot be used"), code(code), path(path) {}

  const int code;  // errno
  const std::string path;
};

// A file that is created at the first write. On POSIX it has no name while it is used, so it disappears
// with the process, however the process ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string folder) : folder_(std::move(folder)) {}

  std::int64_t size() const { return size_; }

  void append(const void* data, std::size_t bytes) {
    if (!file_) open();
    seek(size_);
    if (std::fwrite(data, 1, bytes, file_.get()) != bytes) fail();
    size_ += static_cast<std::int64_t>(bytes);
  }

  void read(std::int64_t offset, void* data, std::size_t bytes) {
    seek(offset);
    if (std::fread(data, 1, bytes, file_.get()) != bytes) fail();
  }

 private:
  struct Close {
    std::string name;  // the file to remove; empty if it is removed already
    void operator()(std::FILE* file) const {
      std::fclose(file);
      if (!name.empty()) std::remove(name.c_str());
    }
  };

  [[noreturn]] void fail() const { throw FileError(errno == 0 ? EIO : errno, folder_); }

  void open() {
    static std::atomic<unsigned> number{0};
    const std::string name = folder_ + "/" + std::to_string(number++);
    errno = 0;
#if defined(_WIN32)
    const std::filesystem::path path(reinterpret_cast<const char8_t*>(name.c_str()));
    file_ = {_wfopen(path.c_str(), L"w+b"), Close{name}};
    if (!file_) fail();
#else
    file_ = {std::fopen(name.c_str(), "w+b"), Close{}};
    if (!file_) fail();
    std::remove(name.c_str());
#endif
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // the callers have buffers
  }

  void seek(std::int64_t offset) {
    errno = 0;
#if defined(_WIN32)
    const int failed = _fseeki64(file_.get(), offset, SEEK_SET);
#else
    const int failed = fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET);
#endif
    if (failed != 0) fail();
  }

  std::string folder_;
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t size_ = 0;
};

}  // namespace trellis
