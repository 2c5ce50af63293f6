#include "cellfeed/format/tenx/mtx_entries.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/format/tenx/mtx_plain_line.h"

namespace cellfeed::format::tenx {
namespace {

// More digits than any index has, few enough for 64 bits.
constexpr int kMaxDigits = 18;

// Reads the words of one line.
class Words {
 public:
  Words(const char* begin, const char* end) : at_(begin), end_(end) {}

  // A whole number without a sign.
  bool read(std::int64_t& number) {
    skip_blanks();
    number = 0;
    const char* begin = at_;
    for (; at_ < end_ && *at_ >= '0' && *at_ <= '9' && at_ - begin < kMaxDigits; ++at_)
      number = 10 * number + (*at_ - '0');
    return at_ > begin && is_between_words();
  }
  template <typename Number>
  bool read_value(Number& number) {
    skip_blanks();
    if (end_ - at_ > 1 && *at_ == '+' && at_[1] != '-') ++at_;
    const auto [stop, error] = std::from_chars(at_, end_, number);
    at_ = stop;
    return error == std::errc() && is_between_words();
  }
  bool is_at_end() {
    skip_blanks();
    return at_ == end_;
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\t'; }
  bool is_between_words() const { return at_ == end_ || is_space(*at_); }
  void skip_blanks() {
    while (at_ < end_ && is_space(*at_)) ++at_;
  }
  const char* at_;
  const char* end_;
};

const char* expected_of(MtxField field) {
  switch (field) {
    case MtxField::kInteger:
      return "two indices and an integer of 32 bits";
    case MtxField::kReal:
      return "two indices and a number that float64 holds";
    case MtxField::kPattern:
      break;
  }
  return "two indices";
}

template <typename Value, bool has_value>
class Parser {
 public:
  Parser(const std::string& path, const MtxHeader& header, const MtxLines& lines,
         std::span<const std::int32_t> columns)
      : path_(path),
        header_(header),
        n_features_(header.n_features()),
        n_cells_(header.n_cells()),
        lines_(lines),
        columns_(columns) {}

  void read(EntryParts parts, Entries& entries) {
    const bool all = parts == EntryParts::kAll;
    const auto most = static_cast<std::size_t>(lines_.n);
    entries.rows.reset(most);
    if (all) entries.columns.reset(most);
    if (all) entries.values.reset(most * sizeof(Value));
    std::int64_t kept = 0;
    const char* at = lines_.text.data();
    for (std::int64_t i = 0; i < lines_.n; ++i) {
      Line line;
      if (!read_plain(at, line)) line = read_any(i, at);
      at = line.end;
      const std::int64_t column =
          columns_.empty() ? line.feature : columns_[static_cast<std::size_t>(line.feature)];
      if (column < 0) continue;
      entries.rows.data()[kept] = static_cast<std::uint32_t>(line.cell);
      if (all) {
        entries.columns.data()[kept] = static_cast<std::int32_t>(column);
        std::memcpy(entries.values.data() + kept * std::int64_t{sizeof(Value)}, &line.value,
                    sizeof(Value));
      }
      ++kept;
    }
    entries.n = kept;
  }

 private:
  struct Line {
    std::int64_t feature = 0;  // from 0
    std::int64_t cell = 0;
    Value value = 1;
    const char* end = nullptr;  // behind its "\n"
  };

  std::int64_t bytes_from(const char* at) const {
    return std::ssize(lines_.text) - (at - lines_.text.data());
  }
  bool read_plain(const char* at, Line& line) {
    if (bytes_from(at) < kPlainLineBytes) return false;
    std::uint32_t row, column;
    if (!plain_lines_.read(at, row, column, line.value)) return false;
    line.feature = std::int64_t{header_.rows_are_cells ? column : row} - 1;
    line.cell = std::int64_t{header_.rows_are_cells ? row : column} - 1;
    line.end = at;
    return line.feature >= 0 && line.feature < n_features_ && line.cell >= 0 &&
           line.cell < n_cells_;
  }
  Line read_any(std::int64_t i, const char* begin) const {
    const auto* end = static_cast<const char*>(
        std::memchr(begin, '\n', static_cast<std::size_t>(bytes_from(begin))));
    if (end - begin > MtxText::kMaxEntryBytes)
      require_short_line(path_, {begin, end}, lines_.number_of(i));
    Line line;
    line.end = end + 1;
    const char* const last = end > begin && end[-1] == '\r' ? end - 1 : end;
    line.value = read_line(i, begin, last, line.feature, line.cell);
    return line;
  }
  // Indices from 0.
  Value read_line(std::int64_t i, const char* begin, const char* end, std::int64_t& feature,
                  std::int64_t& cell) const {
    Words words(begin, end);
    Value value = 1;
    const bool is_entry = words.read(header_.rows_are_cells ? cell : feature) &&
                          words.read(header_.rows_are_cells ? feature : cell) &&
                          (!has_value || words.read_value(value)) && words.is_at_end();
    if (!is_entry)
      throw_error(ErrorKind::kCorruptData, path_, "line {} is not an entry of {}: '{}'",
                  lines_.number_of(i), expected_of(header_.field),
                  excerpt({begin, static_cast<std::size_t>(end - begin)}));
    require_index("feature", i, feature, n_features_);
    require_index("cell", i, cell, n_cells_);
    --feature;
    --cell;
    return value;
  }
  void require_index(const char* what, std::int64_t i, std::int64_t index, std::int64_t n) const {
    if (index >= 1 && index <= n) return;
    throw_error(ErrorKind::kCorruptData, path_, "index out of range in line {}: {} {} of {}",
                lines_.number_of(i), what, index, n);
  }

  const std::string& path_;
  const MtxHeader& header_;
  const std::int64_t n_features_, n_cells_;
  const MtxLines& lines_;
  const std::span<const std::int32_t> columns_;
  PlainLines<Value, has_value> plain_lines_;
};

}  // namespace

DType value_dtype(MtxField field) { return field == MtxField::kReal ? DType::kF64 : DType::kI32; }

void read_entries(const std::string& path, const MtxHeader& header, const MtxLines& lines,
                  std::span<const std::int32_t> columns, EntryParts parts, Entries& entries) {
  switch (header.field) {
    case MtxField::kInteger:
      return Parser<std::int32_t, true>(path, header, lines, columns).read(parts, entries);
    case MtxField::kReal:
      return Parser<double, true>(path, header, lines, columns).read(parts, entries);
    case MtxField::kPattern:
      return Parser<std::int32_t, false>(path, header, lines, columns).read(parts, entries);
  }
}

}  // namespace cellfeed::format::tenx
