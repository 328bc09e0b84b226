// SparseRows of tokens by templates, without building their names.
//
// Each distinct value of a column gets a number, and so does each value that a field makes of it; this
// happens once per distinct value. An attribute is then a key of a few numbers, (literals, value, value,
// ...), that is looked up in a table: names are put together only when somebody asks for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/tables.hpp"
#include "loglinear/fields.hpp"

namespace trellis {

enum class Origin { here, first, last };

struct TemplatePart {
  std::int64_t offset;
  int field;
  Origin origin;
};

struct AttributeTemplate {
  std::uint32_t literals;  // templates with the same text around as many values share attributes
  bool edge;
  std::vector<TemplatePart> parts;
};

struct Gazetteer {
  int field;       // the field that says where its phrases are
  int text_field;  // the field whose values are compared
  std::vector<std::vector<std::uint32_t>> phrases;
};

struct ExtractorSpec {
  std::vector<Field> fields;
  std::vector<AttributeTemplate> templates;
  bool has_outside = false;
  std::vector<std::vector<std::uint32_t>> before, after;  // the fields' values at distance 1, 2, ...
  std::vector<Gazetteer> gazetteers;
  std::uint32_t yes = kNone, begins = kNone, inside = kNone;  // values of the positional fields
};

// Sparse rows as they grow.
struct RowsOut {
  std::vector<std::int64_t> begin{0};
  std::vector<std::int32_t> id;
  void close() { begin.push_back(static_cast<std::int64_t>(id.size())); }
};

// The values that fields make of values: derived[f][v], kNone where there is none, or none known.
class DerivedValues {
 public:
  explicit DerivedValues(std::size_t fields = 0) : derived_(fields) {}
  std::uint32_t get(int field, std::uint32_t value) const { return derived_[field][value]; }
  std::uint32_t size() const { return size_; }
  void push(const std::vector<std::uint32_t>& of_fields) {
    for (std::size_t f = 0; f < derived_.size(); ++f) derived_[f].push_back(of_fields[f]);
    ++size_;
  }

 private:
  std::vector<std::vector<std::uint32_t>> derived_;
  std::uint32_t size_ = 0;
};

// Numbers of column values, one column after the other: those below `known` are the extractor's, others
// are known to this call alone.
struct EncodedTokens {
  std::vector<std::int64_t> begin{0};               // of each sequence
  std::vector<std::vector<std::uint32_t>> columns;  // of each column, one number a token
};

class TemplateExtractor {
 public:
  TemplateExtractor(ExtractorSpec spec, int most_parts)
      : spec_(std::move(spec)), attributes_(most_parts + 1), edges_(most_parts + 1) {
    freeze(0);
  }

  const ExtractorSpec& spec() const { return spec_; }
  KeyTable& attributes() { return attributes_; }
  KeyTable& edges() { return edges_; }
  const KeyTable& attributes() const { return attributes_; }
  const KeyTable& edges() const { return edges_; }

  // One thread's memory.
  struct Memory {
    std::vector<std::uint32_t> values;  // (fields, length)
    std::vector<std::uint32_t> keys;
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint32_t> found;
  };

  // SparseRows of tokens [begin, end), one sequence. Unknown attributes are added to the tables by
  // learn(), left out by find(). `known` and `fresh` are the derived values of values below and from
  // known.size() on.
  void learn(const EncodedTokens& x, std::int64_t begin, std::int64_t end, const DerivedValues& known,
             Memory& memory, RowsOut& rows, RowsOut& edge_rows) {
    const std::int64_t length = end - begin;
    fill(x, begin, end, known, known, memory);
    memory.keys.resize(attributes_.stride());
    for (std::int64_t t = 0; t < length; ++t) {
      for (const AttributeTemplate& tpl : spec_.templates) {
        if (!make_key(tpl, t, length, memory, memory.keys.data())) continue;
        KeyTable& own = tpl.edge ? edges_ : attributes_;
        const std::uint32_t id = own.intern(memory.keys.data(), own.hash(memory.keys.data()));
        (tpl.edge ? edge_rows : rows).id.push_back(static_cast<std::int32_t>(id));
      }
      rows.close();
      edge_rows.close();
    }
  }

  // After learning, to find faster: `values` is the number of values that fields have made.
  void freeze(std::uint32_t values) {
    direct_.assign(spec_.templates.size(), {});
    hashed_.clear();
    std::size_t room = kDirectEntries;
    for (std::size_t n = 0; n < spec_.templates.size(); ++n) {
      if (spec_.templates[n].parts.size() == 1 && values > 0 && values <= room) {
        direct_[n].assign(values, kNone);
        room -= values;
      } else {
        hashed_.push_back(static_cast<std::int64_t>(n));
      }
    }
    for (const bool edge : {false, true}) {
      for (std::uint32_t id = 0; id < table(edge).size(); ++id) list_directly(edge, id);
    }
  }

  void find(const EncodedTokens& x, std::int64_t begin, std::int64_t end, const DerivedValues& known,
            const DerivedValues& fresh, Memory& memory, RowsOut& rows, RowsOut& edge_rows) const {
    const std::int64_t length = end - begin;
    const auto templates = static_cast<std::int64_t>(spec_.templates.size());
    const std::int64_t block =
        std::max<std::int64_t>(1, kBlockKeys / std::max<std::int64_t>(1, templates));
    fill(x, begin, end, known, fresh, memory);
    memory.keys.resize(block * templates * attributes_.stride());
    memory.hashes.resize(block * templates);
    memory.found.resize(block * templates);
    for (std::int64_t first = 0; first < length; first += block) {
      const std::int64_t last = std::min(length, first + block);
      find_block(first, last, length, memory);
      const std::uint32_t* found = memory.found.data();
      for (std::int64_t t = first; t < last; ++t) {
        for (const AttributeTemplate& tpl : spec_.templates) {
          const std::uint32_t id = *found++;
          if (id != kNone) (tpl.edge ? edge_rows : rows).id.push_back(static_cast<std::int32_t>(id));
        }
        rows.close();
        edge_rows.close();
      }
    }
  }

 private:
  // The value of every field at every position.
  void fill(const EncodedTokens& x, std::int64_t begin, std::int64_t end, const DerivedValues& known,
            const DerivedValues& fresh, Memory& memory) const {
    const std::int64_t length = end - begin;
    if (length == 0) return;
    memory.values.resize(spec_.fields.size() * static_cast<std::size_t>(length));
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
      const Field& field = spec_.fields[f];
      std::uint32_t* to = memory.values.data() + f * length;
      if (field.positional()) {
        std::fill(to, to + length, kNone);
        if (field.kind == Kind::first) to[0] = spec_.yes;
        if (field.kind == Kind::last) to[length - 1] = spec_.yes;
        continue;
      }
      const std::uint32_t* from = x.columns[field.column].data() + begin;
      for (std::int64_t t = 0; t < length; ++t) {
        to[t] = from[t] < known.size() ? known.get(static_cast<int>(f), from[t])
                                       : fresh.get(static_cast<int>(f), from[t] - known.size());
      }
    }
    for (const Gazetteer& g : spec_.gazetteers) match(g, length, memory);
  }

  // From left to right, the longest phrase that starts at a token.
  void match(const Gazetteer& g, std::int64_t length, Memory& memory) const {
    const std::uint32_t* text = memory.values.data() + g.text_field * length;
    std::uint32_t* to = memory.values.data() + g.field * length;
    for (std::int64_t t = 0; t < length;) {
      const std::int64_t size = longest_phrase(g, text + t, length - t);
      for (std::int64_t k = 0; k < size; ++k) to[t + k] = k == 0 ? spec_.begins : spec_.inside;
      t += std::max<std::int64_t>(size, 1);
    }
  }

  // Phrases are sorted, so those with a common beginning are neighbours.
  static std::int64_t longest_phrase(const Gazetteer& g, const std::uint32_t* text,
                                     std::int64_t length) {
    auto first = g.phrases.begin(), last = g.phrases.end();
    std::int64_t longest = 0;
    for (std::int64_t k = 0; k < length && first != last; ++k) {
      first = std::partition_point(first, last, [&](const auto& p) {
        return static_cast<std::int64_t>(p.size()) <= k || p[k] < text[k];
      });
      last = std::partition_point(first, last, [&](const auto& p) { return p[k] == text[k]; });
      if (first != last && static_cast<std::int64_t>(first->size()) == k + 1) longest = k + 1;
    }
    return longest;
  }

  // A block of positions at a time: all keys are hashed, then all slots are read, then all keys
  // compared. Each step asks for the memory of the next, which is there by then.
  void find_block(std::int64_t begin, std::int64_t end, std::int64_t length, Memory& memory) const {
    const int stride = attributes_.stride();
    const auto templates = static_cast<std::int64_t>(spec_.templates.size());
    for (std::int64_t n = 0; n < templates; ++n) {
      if (direct_[n].empty()) {
        hash_keys(n, begin, end, length, memory);
      } else {
        find_direct(n, begin, end, length, memory);
      }
    }
    for (const std::int64_t n : hashed_) {
      const KeyTable& own = table(spec_.templates[n].edge);
      for (std::int64_t at = n; at < (end - begin) * templates; at += templates) {
        if (memory.keys[at * stride] != kNone) memory.found[at] = own.likely(memory.hashes[at]);
      }
    }
    for (const std::int64_t n : hashed_) {
      const KeyTable& own = table(spec_.templates[n].edge);
      for (std::int64_t at = n; at < (end - begin) * templates; at += templates) {
        const std::uint32_t* key = memory.keys.data() + at * stride;
        memory.found[at] = *key == kNone ? kNone : own.find(key, memory.hashes[at], memory.found[at]);
      }
    }
  }

  const KeyTable& table(bool edge) const { return edge ? edges_ : attributes_; }

  void hash_keys(std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t length,
                 Memory& memory) const {
    const KeyTable& own = table(spec_.templates[n].edge);
    const auto templates = static_cast<std::int64_t>(spec_.templates.size());
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t at = (t - begin) * templates + n;
      std::uint32_t* key = memory.keys.data() + at * own.stride();
      if (!make_key(spec_.templates[n], t, length, memory, key)) continue;
      memory.hashes[at] = own.hash(key);
      own.prefetch(memory.hashes[at]);
    }
  }

  // A template of one part needs no hashing: its attributes are listed by their values.
  void find_direct(std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t length,
                   Memory& memory) const {
    const TemplatePart& part = spec_.templates[n].parts[0];
    const std::vector<std::uint32_t>& attribute = direct_[n];
    const auto templates = static_cast<std::int64_t>(spec_.templates.size());
    for (std::int64_t t = begin; t < end; ++t) {
      const std::uint32_t value = value_at(part, t, length, memory);
      const bool known = value < attribute.size() && !(spec_.templates[n].edge && t == 0);
      memory.found[(t - begin) * templates + n] = known ? attribute[value] : kNone;
    }
  }

  // False, and a key that begins with kNone, if the template does not fire.
  bool make_key(const AttributeTemplate& tpl, std::int64_t t, std::int64_t length, const Memory& memory,
                std::uint32_t* key) const {
    bool fires = !(tpl.edge && t == 0);
    int k = 1;
    for (const TemplatePart& part : tpl.parts) {
      key[k] = value_at(part, t, length, memory);
      fires = fires && key[k] != kNone;
      ++k;
    }
    for (; k < attributes_.stride(); ++k) key[k] = kNone;
    key[0] = fires ? tpl.literals : kNone;
    return fires;
  }

  std::uint32_t value_at(const TemplatePart& part, std::int64_t t, std::int64_t length,
                         const Memory& memory) const {
    std::int64_t at = part.offset;
    if (part.origin == Origin::here) at += t;
    if (part.origin == Origin::last) at += length - 1;
    if (0 <= at && at < length) return memory.values[part.field * length + at];
    if (!spec_.has_outside || spec_.fields[part.field].positional()) return kNone;
    const auto& outside = at < 0 ? spec_.before : spec_.after;
    const auto most = static_cast<std::int64_t>(outside.size());
    return outside[std::min(at < 0 ? -at : at - length + 1, most) - 1][part.field];
  }

  void list_directly(bool edge, std::uint32_t id) {
    const std::uint32_t* key = table(edge).key(id);
    if (table(edge).stride() < 2 || key[1] == kNone) return;
    for (std::size_t n = 0; n < direct_.size(); ++n) {
      const AttributeTemplate& tpl = spec_.templates[n];
      if (!direct_[n].empty() && tpl.edge == edge && tpl.literals == key[0]) direct_[n][key[1]] = id;
    }
  }

  static constexpr std::int64_t kBlockKeys = 128;
  static constexpr std::size_t kDirectEntries = 1 << 24;

  ExtractorSpec spec_;
  KeyTable attributes_, edges_;
  std::vector<std::vector<std::uint32_t>> direct_;  // attributes of templates of one part, by value
  std::vector<std::int64_t> hashed_;                // the other templates
};

}  // namespace trellis
