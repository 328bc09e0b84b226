// Extracts the attributes of tokens by templates, without building attribute names.
//
// Each distinct value of a column gets a number, and so does each value that a field derives from it;
// this happens once per distinct value. An attribute is a short key of numbers, (literals, value, value,
// ...), which is looked up in a hash table. Names are built only on request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/poll.hpp"
#include "base/tables.hpp"
#include "features/token_fields.hpp"

namespace trellis {

enum class Origin { here, first, last };  // the position that the offset of a part is added to

// One value of a template: field `field` at position origin + offset.
struct TemplatePart {
  std::int64_t offset;
  int field;
  Origin origin;
};

struct AttributeTemplate {
  // A number that stands for the literal texts between the values. Templates with equal literals share
  // attributes.
  std::uint32_t literals;
  bool edge;  // an attribute of the transition into a position, not of the position
  std::vector<TemplatePart> parts;
};

// A list of phrases. Marks the tokens of each occurrence with B (first token) and I (other tokens).
struct Gazetteer {
  int field;       // the field that receives the marks
  int text_field;  // the field whose values are compared with the phrases
  std::vector<std::vector<std::uint32_t>> phrases;  // sorted; the value numbers of each phrase
};

struct ExtractorSpec {
  std::vector<Field> fields;
  std::vector<AttributeTemplate> templates;
  bool has_outside = false;
  // (distance, fields): the field values 1, 2, ... positions before the first and after the last token
  std::vector<std::vector<std::uint32_t>> before, after;
  std::vector<Gazetteer> gazetteers;
  std::uint32_t yes = kNone, begins = kNone, inside = kNone;  // values of the positional fields
};

// Sparse rows that are being built.
struct RowsOut {
  std::vector<std::int64_t> begin{0};  // (rows + 1)
  std::vector<std::int32_t> id;        // (entries)
  void end_row() { begin.push_back(static_cast<std::int64_t>(id.size())); }
};

// The rows of attributes and of edge attributes.
struct ExtractedRows {
  RowsOut rows, edges;
  void end_row() {
    rows.end_row();
    edges.end_row();
  }
};

// The values that fields derive from column values. kNone means that a field has no value, or an unknown
// one.
class DerivedValues {
 public:
  explicit DerivedValues(std::size_t fields = 0) : derived_(fields) {}
  std::uint32_t get(int field, std::uint32_t value) const { return derived_[field][value]; }
  std::uint32_t size() const { return size_; }
  void push(const std::vector<std::uint32_t>& field_values) {
    for (std::size_t f = 0; f < derived_.size(); ++f) derived_[f].push_back(field_values[f]);
    ++size_;
  }

 private:
  std::vector<std::vector<std::uint32_t>> derived_;  // (fields, values)
  std::uint32_t size_ = 0;
};

// Column values as numbers. Numbers below DerivedValues::size() of the extractor are known to it; larger
// numbers are valid only within one call.
struct EncodedTokens {
  std::vector<std::int64_t> begin{0};               // (sequences + 1): the first token of each sequence
  std::vector<std::vector<std::uint32_t>> columns;  // (columns, tokens)
};

// Tokens [begin, end): one sequence.
struct TokenRange {
  const EncodedTokens& tokens;
  std::int64_t begin, end;
  std::int64_t length() const { return end - begin; }
};

class TemplateExtractor {
 public:
  // `max_parts` is the largest number of parts of a template: it decides the length of keys.
  TemplateExtractor(ExtractorSpec spec, int max_parts)
      : spec_(std::move(spec)), attributes_(max_parts + 1), edges_(max_parts + 1) {
    freeze(0);
  }

  const ExtractorSpec& spec() const { return spec_; }
  KeyTable& attributes() { return attributes_; }
  KeyTable& edges() { return edges_; }
  const KeyTable& attributes() const { return attributes_; }
  const KeyTable& edges() const { return edges_; }

  // Scratch memory of one thread.
  struct Memory {
    std::vector<std::uint32_t> values;  // (fields, length)
    std::vector<std::uint32_t> keys;    // (positions, templates, key size)
    std::vector<std::uint64_t> hashes;  // (positions, templates)
    std::vector<std::uint32_t> ids;     // (positions, templates): attribute numbers, kNone if unknown
    PollEvery poll{1 << 11};            // per token: one sequence can have millions
  };

  // learn() and find() append the rows of one sequence. learn() adds unknown attributes to the tables,
  // find() omits them. `known` has the derived values of numbers below known.size(), `fresh` those of
  // larger numbers.
  void learn(const TokenRange& x, const DerivedValues& known, Memory& memory, ExtractedRows& out) {
    const std::int64_t length = x.length();
    fill(x, known, known, memory);
    memory.keys.resize(attributes_.stride());
    for (std::int64_t t = 0; t < length; ++t) {
      memory.poll.step();
      for (const AttributeTemplate& tpl : spec_.templates) {
        if (!make_key(tpl, t, length, memory, memory.keys.data())) continue;
        KeyTable& target = tpl.edge ? edges_ : attributes_;
        const std::uint32_t id = target.intern(memory.keys.data(), target.hash(memory.keys.data()));
        (tpl.edge ? out.edges : out.rows).id.push_back(static_cast<std::int32_t>(id));
      }
      out.end_row();
    }
  }

  // Builds the direct tables (see find_direct) after learning. `values` is the number of derived values.
  void freeze(std::uint32_t values) {
    direct_.assign(spec_.templates.size(), {});
    hashed_.clear();
    std::size_t free_entries = kDirectEntries;
    for (std::size_t n = 0; n < spec_.templates.size(); ++n) {
      if (spec_.templates[n].parts.size() == 1 && values > 0 && values <= free_entries) {
        direct_[n].assign(values, kNone);
        free_entries -= values;
      } else {
        hashed_.push_back(static_cast<std::int64_t>(n));
      }
    }
    for (const bool edge : {false, true}) {
      for (std::uint32_t id = 0; id < table(edge).size(); ++id) list_directly(edge, id);
    }
  }

  void find(const TokenRange& x, const DerivedValues& known, const DerivedValues& fresh, Memory& memory,
            ExtractedRows& out) const {
    const std::int64_t length = x.length();
    const auto templates = static_cast<std::int64_t>(spec_.templates.size());
    const std::int64_t block =
        std::max<std::int64_t>(1, kBlockKeys / std::max<std::int64_t>(1, templates));
    fill(x, known, fresh, memory);
    memory.keys.resize(block * templates * attributes_.stride());
    memory.hashes.resize(block * templates);
    memory.ids.resize(block * templates);
    for (std::int64_t first = 0; first < length; first += block) {
      const std::int64_t last = std::min(length, first + block);
      find_block(first, last, length, memory);
      const std::uint32_t* next_id = memory.ids.data();
      for (std::int64_t t = first; t < last; ++t) {
        memory.poll.step();
        for (const AttributeTemplate& tpl : spec_.templates) {
          const std::uint32_t id = *next_id++;
          if (id != kNone) (tpl.edge ? out.edges : out.rows).id.push_back(static_cast<std::int32_t>(id));
        }
        out.end_row();
      }
    }
  }

 private:
  // Fills memory.values with the value of every field at every position.
  void fill(const TokenRange& x, const DerivedValues& known, const DerivedValues& fresh,
            Memory& memory) const {
    const std::int64_t length = x.length();
    if (length == 0) return;
    memory.values.resize(spec_.fields.size() * static_cast<std::size_t>(length));
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
      poll_interrupt();
      const Field& field = spec_.fields[f];
      std::uint32_t* to = memory.values.data() + f * length;
      if (field.positional()) {
        std::fill(to, to + length, kNone);
        if (field.kind == Kind::first) to[0] = spec_.yes;
        if (field.kind == Kind::last) to[length - 1] = spec_.yes;
        continue;
      }
      const std::uint32_t* from = x.tokens.columns[field.column].data() + x.begin;
      for (std::int64_t t = 0; t < length; ++t) {
        to[t] = from[t] < known.size() ? known.get(static_cast<int>(f), from[t])
                                       : fresh.get(static_cast<int>(f), from[t] - known.size());
      }
    }
    for (const Gazetteer& g : spec_.gazetteers) match(g, length, memory);
  }

  // Marks phrases from left to right: at each token, the longest phrase that starts there.
  void match(const Gazetteer& g, std::int64_t length, Memory& memory) const {
    const std::uint32_t* text = memory.values.data() + g.text_field * length;
    std::uint32_t* to = memory.values.data() + g.field * length;
    for (std::int64_t t = 0; t < length;) {
      const std::int64_t size = longest_phrase(g, text + t, length - t);
      for (std::int64_t k = 0; k < size; ++k) to[t + k] = k == 0 ? spec_.begins : spec_.inside;
      t += std::max<std::int64_t>(size, 1);
    }
  }

  // Returns the length of the longest phrase at `text`, 0 if there is none. Phrases are sorted, so
  // phrases with a common beginning are neighbours, and each token narrows the range.
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

  // Looks up positions [begin, end) in three passes: hash all keys, read all slots, compare all keys.
  // Each pass prefetches the memory of the next one.
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
      const KeyTable& attributes = table(spec_.templates[n].edge);
      for (std::int64_t cell = n; cell < (end - begin) * templates; cell += templates) {
        if (memory.keys[cell * stride] != kNone)
          memory.ids[cell] = attributes.likely_entry(memory.hashes[cell]);
      }
    }
    for (const std::int64_t n : hashed_) {
      const KeyTable& attributes = table(spec_.templates[n].edge);
      for (std::int64_t cell = n; cell < (end - begin) * templates; cell += templates) {
        const std::uint32_t* key = memory.keys.data() + cell * stride;
        memory.ids[cell] =
            *key == kNone ? kNone : attributes.find(key, memory.hashes[cell], memory.ids[cell]);
      }
    }
  }

  const KeyTable& table(bool edge) const { return edge ? edges_ : attributes_; }

  void hash_keys(std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t length,
                 Memory& memory) const {
    const KeyTable& attributes = table(spec_.templates[n].edge);
    const auto templates = static_cast<std::int64_t>(spec_.templates.size());
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t cell = (t - begin) * templates + n;
      std::uint32_t* key = memory.keys.data() + cell * attributes.stride();
      if (!make_key(spec_.templates[n], t, length, memory, key)) continue;
      memory.hashes[cell] = attributes.hash(key);
      attributes.prefetch(memory.hashes[cell]);
    }
  }

  // A template of one part needs no hashing: its attributes are listed by value in direct_.
  void find_direct(std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t length,
                   Memory& memory) const {
    const TemplatePart& part = spec_.templates[n].parts[0];
    const std::vector<std::uint32_t>& id_by_value = direct_[n];
    const auto templates = static_cast<std::int64_t>(spec_.templates.size());
    for (std::int64_t t = begin; t < end; ++t) {
      const std::uint32_t value = value_at(part, t, length, memory);
      const bool known = value < id_by_value.size() && !(spec_.templates[n].edge && t == 0);
      memory.ids[(t - begin) * templates + n] = known ? id_by_value[value] : kNone;
    }
  }

  // Writes the key of a template at position t. Returns false, and a key that begins with kNone, if the
  // template does not apply there.
  bool make_key(const AttributeTemplate& tpl, std::int64_t t, std::int64_t length, const Memory& memory,
                std::uint32_t* key) const {
    bool applies = !(tpl.edge && t == 0);
    int k = 1;
    for (const TemplatePart& part : tpl.parts) {
      key[k] = value_at(part, t, length, memory);
      applies = applies && key[k] != kNone;
      ++k;
    }
    for (; k < attributes_.stride(); ++k) key[k] = kNone;
    key[0] = applies ? tpl.literals : kNone;
    return applies;
  }

  // Returns the value of a part at position t; outside the sequence, the value in spec_.before or
  // spec_.after.
  std::uint32_t value_at(const TemplatePart& part, std::int64_t t, std::int64_t length,
                         const Memory& memory) const {
    std::int64_t position = part.offset;
    if (part.origin == Origin::here) position += t;
    if (part.origin == Origin::last) position += length - 1;
    if (0 <= position && position < length) return memory.values[part.field * length + position];
    if (!spec_.has_outside || spec_.fields[part.field].positional()) return kNone;
    const auto& outside = position < 0 ? spec_.before : spec_.after;
    const auto distances = static_cast<std::int64_t>(outside.size());
    return outside[std::min(position < 0 ? -position : position - length + 1, distances) - 1]
                  [part.field];
  }

  // Adds attribute `id` to the direct tables of its templates.
  void list_directly(bool edge, std::uint32_t id) {
    const std::uint32_t* key = table(edge).key(id);
    if (table(edge).stride() < 2 || key[1] == kNone) return;
    for (std::size_t n = 0; n < direct_.size(); ++n) {
      const AttributeTemplate& tpl = spec_.templates[n];
      if (!direct_[n].empty() && tpl.edge == edge && tpl.literals == key[0]) direct_[n][key[1]] = id;
    }
  }

  // The number of keys per block; chosen by hand.
  static constexpr std::int64_t kBlockKeys = 128;
  // The largest number of entries of all direct tables together (64 MiB). Templates that do not fit use
  // the hash tables.
  static constexpr std::size_t kDirectEntries = 1 << 24;

  ExtractorSpec spec_;
  KeyTable attributes_, edges_;
  std::vector<std::vector<std::uint32_t>> direct_;  // (templates, values): ids; empty if hashed
  std::vector<std::int64_t> hashed_;                // the templates without a direct table
};

}  // namespace trellis
