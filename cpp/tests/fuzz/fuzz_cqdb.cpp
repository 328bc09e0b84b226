// The dictionary of CRFsuite's model files: strings of any bytes are written.
#include "formats/cqdb.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trellis::fuzz::run([&] {
    trellis::fuzz::Input input(data, size);
    trellis::cqdb::Writer writer;
    std::size_t strings = 0, bytes = 0;
    while (!input.empty()) {
      const std::string_view string = input.string();
      writer.add(string);
      ++strings;
      bytes += string.size();
    }
    // Per string: a record of 9 bytes and the string, two slots of 8, an offset of 4.
    PROMISE(writer.finish().size() == trellis::cqdb::kData + bytes + 29 * strings);
  });
}
